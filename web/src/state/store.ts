/** The one state of the page, kept in the address. */

import type { ViewState } from "./state";
import { format, parse } from "./url";

export type Mode = "push" | "replace";

export interface Store {
  readonly get: () => ViewState;
  /** What of the last link could not be read. */
  readonly problems: () => readonly string[];
  readonly update: (change: Partial<ViewState>, mode?: Mode) => void;
  /** Adds to the address what is shown where the state leaves it open: the server's model, the coverage that fits. */
  readonly settle: (shown: Partial<ViewState>) => void;
  /** The state as a link is to have it. */
  readonly linked: () => ViewState;
  readonly subscribe: (listener: () => void) => () => void;
  readonly close: () => void;
}

/** Browsers slow pages down that write addresses at every movement of the hand; they are written when it rests. */
const REST = 150;

export function addressStore(page: Window): Store {
  let { state, problems } = parse(page.location.hash);
  let settled: Partial<ViewState> = {};
  let waiting: number | null = null;
  const listeners = new Set<() => void>();
  const tell = (): void => listeners.forEach((listener) => listener());

  const linked = (): ViewState => ({ ...state, ...settled });
  const write = (mode: Mode): void => {
    if (waiting !== null) page.clearTimeout(waiting);
    waiting = null;
    const address = format(linked());
    if (address === page.location.hash) return;
    if (mode === "push") page.history.pushState(null, "", address);
    else page.history.replaceState(null, "", address);
  };
  const moved = (): void => {
    if (waiting !== null) page.clearTimeout(waiting);
    waiting = null;
    if (format(linked()) === page.location.hash) return;
    ({ state, problems } = parse(page.location.hash));
    settled = {};
    tell();
  };
  page.addEventListener("popstate", moved);
  page.addEventListener("hashchange", moved);

  return {
    get: () => state,
    problems: () => problems,
    update: (change, mode = "push") => {
      const next = { ...state, ...change };
      if (format(next) === format(state)) return;
      // A drag that has not been written yet belongs to the step before this one.
      if (mode === "push" && waiting !== null) write("replace");
      state = next;
      settled = {};
      problems = [];
      if (mode === "push") write("push");
      else waiting ??= page.setTimeout(() => write("replace"), REST);
      tell();
    },
    settle: (shown) => {
      settled = { ...settled, ...shown };
      if (waiting === null) write("replace");
    },
    linked,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => {
      if (waiting !== null) write("replace");
      page.removeEventListener("popstate", moved);
      page.removeEventListener("hashchange", moved);
    },
  };
}

/** For a notebook, or a frame that has no address of its own. */
export function memoryStore(first: ViewState): Store {
  let state = first;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    problems: () => [],
    update: (change) => {
      const next = { ...state, ...change };
      if (format(next) === format(state)) return;
      state = next;
      listeners.forEach((listener) => listener());
    },
    settle: () => undefined,
    linked: () => state,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => listeners.clear(),
  };
}
