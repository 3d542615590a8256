/** Hook that runs the workbench's keyboard shortcuts: words, heads, coverage, methods, views, export. */

import { useEffect, useRef } from "react";

import type { Page } from "../shell/pageContext";
import { copyLink } from "../shell/copyLink";
import { SPECIALS, listNames } from "../state/choices";
import { type KeyPress, matchKey } from "../state/keyMap";
import type { HeadId } from "../state/state";
import { NO_PINS } from "./wordPins";

/** Values and actions of the workbench that keys need. */
export interface WorkbenchActions {
  readonly layers: number;
  readonly heads: number;
  readonly coverage: number; // coverage of the picture
  readonly methods: readonly string[];
  readonly getFocus: () => number | null; // token of the focused word
  readonly focusWords: () => void;
  readonly verify: () => void;
  readonly unselect: () => void; // clears the selected edge or node
}

type KeyAction = (page: Page, bench: WorkbenchActions, key: string) => void;

const KEY_ACTIONS: Partial<Record<KeyPress["action"], KeyAction>> = {
  "token-before": (_, bench) => bench.focusWords(),
  "token-after": (_, bench) => bench.focusWords(),
  "layer-up": (page, bench) => stepHead(page, bench, 1, 0),
  "layer-down": (page, bench) => stepHead(page, bench, -1, 0),
  "head-before": (page, bench) => stepHead(page, bench, 0, -1),
  "head-after": (page, bench) => stepHead(page, bench, 0, 1),
  unpin: ({ update }, bench) => {
    bench.unselect();
    update(NO_PINS);
  },
  "trace-back": ({ state, update }, bench) => {
    const token = bench.getFocus();
    if (token === null) update({ token: null, direction: "back" });
    else
      update({
        token,
        direction: state.token === token && state.direction === "through" ? "back" : "through",
      });
  },
  "trace-forward": ({ state, update, announce }, bench) => {
    const token = bench.getFocus() ?? state.token;
    if (token === null) announce("Forward from which word? Go to one with the arrow keys first.");
    else update({ token, direction: "forward" });
  },
  "coverage-more": (page, bench) => stepCoverage(page, bench, 0.05),
  "coverage-less": (page, bench) => stepCoverage(page, bench, -0.05),
  specials: ({ state, update, announce }) => {
    const names = listNames(SPECIALS);
    const next = names[(names.indexOf(state.specials) + 1) % names.length] ?? "gutter";
    update({ specials: next });
    announce(`Special tokens: ${SPECIALS[next]}.`);
  },
  words: ({ state, update, announce }) => {
    update({ words: !state.words });
    announce(state.words ? "Tokens." : "Words.");
  },
  method: ({ state, update, announce }, { methods }, key) => {
    const name = methods[Number(key) - 1];
    if (name === undefined) return;
    update({ methods: [name, ...state.methods.slice(1).filter((each) => each !== name)] });
    announce(`Method ${name}.`);
  },
  view: ({ state, update, announce }) => {
    const view = state.view === "ladder" ? "rings" : "ladder";
    update({ view });
    announce(view === "rings" ? "Rings." : "Ladder.");
  },
  verify: (_, bench) => bench.verify(),
  export: ({ root }) => openExport(root ?? document),
  link: ({ state, getLinkState, announce }) => void copyLink(getLinkState?.() ?? state).then(announce),
  query: ({ root }) => (root ?? document).querySelector<HTMLElement>("[data-query]")?.focus(),
  help: ({ update }) => update({ page: "help" }),
};

/** Run the action of each key in the key map. */
export function useWorkbenchKeys(page: Page, bench: WorkbenchActions): void {
  const latest = useRef({ page, bench });
  useEffect(() => {
    latest.current = { page, bench };
  });
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const press = matchKey(event, latest.current.page.root);
      const action = press ? KEY_ACTIONS[press.action] : undefined;
      if (!press || !action) return;
      event.preventDefault();
      action(latest.current.page, latest.current.bench, press.key);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}

function stepHead(
  { state, update, announce }: Page,
  { layers, heads }: WorkbenchActions,
  up: number,
  right: number,
): void {
  if (layers === 0 || heads === 0) return;
  const next: HeadId =
    state.head === null
      ? [layers - 1, 0]
      : [clamp(state.head[0] + up, layers - 1), clamp(state.head[1] + right, heads - 1)];
  update({ head: next }, state.head === null ? "push" : "replace");
  announce(`Layer ${next[0]}, head ${next[1]}.`);
}

function stepCoverage({ state, update, announce }: Page, bench: WorkbenchActions, by: number): void {
  if (state.classic) {
    announce("The classic definition has its own threshold: all of it is shown.");
    return;
  }
  const coverage = Math.min(1, Math.max(0.01, Math.round(100 * (bench.coverage + by)) / 100));
  update({ coverage }, "replace");
  announce(`Coverage ${Math.round(100 * coverage)}%.`);
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(most, value));
}

function openExport(root: ParentNode): void {
  const menu = root.querySelector<HTMLDetailsElement>('[data-export="flow"]');
  if (!menu) return;
  menu.open = true;
  menu.querySelector("button")?.focus();
}
