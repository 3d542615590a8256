/** What every page has at hand: where numbers come from, the state that is the link, and a voice for who cannot see. */

import { createContext, useContext } from "react";

import type { Session } from "../api/types";
import type { Theme } from "../render/scene";
import type { Server, Source } from "../source/source";
import type { HeadId, ViewState } from "../state/state";

/** "push" leaves a step for the back button; "replace" does not, for what changes while a hand moves. */
export type Mode = "push" | "replace";
export type Update = (change: Partial<ViewState>, mode?: Mode) => void;

export interface Page<S extends Source = Source> {
  readonly source: S;
  readonly session: Session;
  readonly state: ViewState;
  readonly update: Update;
  /** Says what is shown where the state leaves it open, so that the link holds it too. */
  readonly settle?: (shown: Partial<ViewState>) => void;
  /** The state as a link is to have it; absent: as it is. */
  readonly linked?: () => ViewState;
  readonly theme: Theme;
  /** Says one sentence to a screen reader, politely. */
  readonly announce: (text: string) => void;
  /** Asks the server again what it has: after a model or a file was brought. */
  readonly refresh?: () => void;
  /** Where keys are heard, in a document that is not all ours; absent: everywhere. */
  readonly root?: HTMLElement;
  /** Hears of what is chosen and shown: a notebook gives it to Python. */
  readonly onSelection?: (selection: Selection) => void;
}

export interface Selection {
  readonly tokens: readonly number[]; // those that are pinned
  readonly edges: readonly (readonly [layer: number, head: number, source: number, to: number])[]; // those shown
  readonly head: HeadId | null; // whose matrix is open
}

export const PageContext = createContext<Page | null>(null);

/** The page's context, with any source: a server, a notebook's kernel, or a file. */
export function usePage(): Page {
  const page = useContext(PageContext);
  if (page === null) throw new Error("this component stands outside of a PageContext");
  return page;
}

/** The page's context where only a server will do. */
export function useServer(): Page<Server> {
  const page = usePage();
  if (!isServer(page.source)) throw new Error("this page needs a server");
  return { ...page, source: page.source };
}

export function isServer(source: Source): source is Server {
  return source.kind === "server";
}
