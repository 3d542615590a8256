/** Stores of the page state with listeners: in the window's address and history, or in memory. */

import type { ViewState } from "./state";
import { formatUrl, parseUrl } from "./url";

/** History mode: "push" adds a step for the back button; "replace" does not, for a drag. */
export type HistoryMode = "push" | "replace";

/** State with its listeners. */
export interface Store {
  readonly get: () => ViewState;
  /** Parts of the last link that could not be read. */
  readonly problems: () => readonly string[];
  readonly update: (change: Partial<ViewState>, mode?: HistoryMode) => void;
  /** Adds defaults to the address where the state leaves them open, such as the server's model or the coverage. */
  readonly addDefaults: (defaults: Partial<ViewState>) => void;
  /** State for the link, with its defaults. */
  readonly getLinkState: () => ViewState;
  readonly subscribe: (listener: () => void) => () => void;
  readonly close: () => void;
}

/**
 * Milliseconds without a change after which a drag is written: browsers throttle pages that write addresses
 * often.
 */
const REST = 150;

/** Create a store that reads and writes the window's address. */
export function createAddressStore(page: Window): Store {
  let { state, problems } = parseUrl(page.location.hash);
  let linkDefaults: Partial<ViewState> = {};
  let waiting: number | null = null;
  const listeners = new Set<() => void>();
  const tell = (): void => listeners.forEach((listener) => listener());

  const getLinkState = (): ViewState => ({ ...state, ...linkDefaults });
  const write = (mode: HistoryMode): void => {
    if (waiting !== null) page.clearTimeout(waiting);
    waiting = null;
    const address = formatUrl(getLinkState());
    if (address === page.location.hash) return;
    if (mode === "push") page.history.pushState(null, "", address);
    else page.history.replaceState(null, "", address);
  };
  const readAddress = (): void => {
    if (waiting !== null) page.clearTimeout(waiting);
    waiting = null;
    if (formatUrl(getLinkState()) === page.location.hash) return;
    ({ state, problems } = parseUrl(page.location.hash));
    linkDefaults = {};
    tell();
  };
  page.addEventListener("popstate", readAddress);
  page.addEventListener("hashchange", readAddress);

  return {
    get: () => state,
    problems: () => problems,
    update: (change, mode = "push") => {
      const next = { ...state, ...change };
      if (formatUrl(next) === formatUrl(state)) return;
      // A drag that is not written yet belongs to the previous history step.
      if (mode === "push" && waiting !== null) write("replace");
      state = next;
      linkDefaults = {};
      problems = [];
      if (mode === "push") write("push");
      else waiting ??= page.setTimeout(() => write("replace"), REST);
      tell();
    },
    addDefaults: (defaults) => {
      linkDefaults = { ...linkDefaults, ...defaults };
      if (waiting === null) write("replace");
    },
    getLinkState,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => {
      if (waiting !== null) write("replace");
      page.removeEventListener("popstate", readAddress);
      page.removeEventListener("hashchange", readAddress);
    },
  };
}

/** Create a store without an address, for a notebook or a frame. */
export function createMemoryStore(first: ViewState): Store {
  let state = first;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    problems: () => [],
    update: (change) => {
      const next = { ...state, ...change };
      if (formatUrl(next) === formatUrl(state)) return;
      state = next;
      listeners.forEach((listener) => listener());
    },
    addDefaults: () => undefined,
    getLinkState: () => state,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => listeners.clear(),
  };
}
