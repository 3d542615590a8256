/** React context of a page (source, session, state, theme, announcer), and hooks that read it. */

import { createContext, useContext } from "react";

import type { Session } from "../api/types";
import type { Theme } from "../render/scene";
import type { Server, Source } from "../source/source";
import type { HeadId, ViewState } from "../state/state";
import type { HistoryMode } from "../state/store";

/** Function that changes the page state. */
export type Update = (change: Partial<ViewState>, mode?: HistoryMode) => void;

/** Values that every page component has access to. */
export interface Page<S extends Source = Source> {
  readonly source: S;
  readonly session: Session;
  readonly state: ViewState;
  readonly update: Update;
  /** Adds defaults to the link where the state leaves them open. */
  readonly addDefaults?: (defaults: Partial<ViewState>) => void;
  /** State for the link; absent: the state itself. */
  readonly getLinkState?: () => ViewState;
  readonly theme: Theme;
  /** Announces one sentence to screen readers, politely. */
  readonly announce: (text: string) => void;
  /** Requests the session again, after a model or a file was added. */
  readonly refresh?: () => void;
  /** Root element whose key events count, in a document with other content; absent: the document. */
  readonly root?: HTMLElement;
  /** Listener of the selection: a notebook passes it to Python. */
  readonly onSelection?: (selection: Selection) => void;
}

/** Selection of the workbench. */
export interface Selection {
  readonly tokens: readonly number[]; // pinned tokens
  readonly edges: readonly (readonly [layer: number, head: number, source: number, to: number])[]; // visible edges
  readonly head: HeadId | null; // head of the open matrix
}

export const PageContext = createContext<Page | null>(null);

/** Return the page context, with any source: server, kernel or file. */
export function usePage(): Page {
  const page = useContext(PageContext);
  if (page === null) throw new Error("this component stands outside of a PageContext");
  return page;
}

/** Return the page context where only a server will do. */
export function useServer(): Page<Server> {
  const page = usePage();
  if (!isServer(page.source)) throw new Error("this page needs a server");
  return { ...page, source: page.source };
}

/** Whether a source is a server. */
export function isServer(source: Source): source is Server {
  return source.kind === "server";
}
