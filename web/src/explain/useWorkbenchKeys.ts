/** What the keys of the map do in the workbench. */

import { useEffect, useRef } from "react";

import type { Page } from "../shell/context";
import { copyLink } from "../shell/link";
import { SPECIALS, namesOf } from "../state/choices";
import { type Pressed, pressed } from "../state/keys";
import type { HeadId } from "../state/state";
import { UNPINNED } from "./pin";

export interface Bench {
  readonly layers: number;
  readonly heads: number;
  readonly coverage: number; // what is shown
  readonly methods: readonly string[];
  readonly focused: () => number | null; // the token of the word that has the focus
  readonly toWords: () => void;
  readonly verify: () => void;
  readonly unselect: () => void; // the edge or the place that was clicked in the flow
}

type Deed = (page: Page, bench: Bench, key: string) => void;

const DEEDS: Partial<Record<Pressed["action"], Deed>> = {
  "token-before": (_, bench) => bench.toWords(),
  "token-after": (_, bench) => bench.toWords(),
  "layer-up": (page, bench) => stepHead(page, bench, 1, 0),
  "layer-down": (page, bench) => stepHead(page, bench, -1, 0),
  "head-before": (page, bench) => stepHead(page, bench, 0, -1),
  "head-after": (page, bench) => stepHead(page, bench, 0, 1),
  unpin: ({ update }, bench) => {
    bench.unselect();
    update(UNPINNED);
  },
  "trace-back": ({ state, update }, bench) => {
    const token = bench.focused();
    if (token === null) update({ token: null, direction: "back" });
    else
      update({
        token,
        direction: state.token === token && state.direction === "through" ? "back" : "through",
      });
  },
  "trace-forward": ({ state, update, announce }, bench) => {
    const token = bench.focused() ?? state.token;
    if (token === null) announce("Forward from which word? Go to one with the arrow keys first.");
    else update({ token, direction: "forward" });
  },
  "coverage-more": (page, bench) => stepCoverage(page, bench, 0.05),
  "coverage-less": (page, bench) => stepCoverage(page, bench, -0.05),
  specials: ({ state, update, announce }) => {
    const names = namesOf(SPECIALS);
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
  link: ({ state, linked, announce }) => void copyLink(linked?.() ?? state).then(announce),
  query: ({ root }) => (root ?? document).querySelector<HTMLElement>("[data-query]")?.focus(),
  help: ({ update }) => update({ page: "help" }),
};

export function useKeys(page: Page, bench: Bench): void {
  const latest = useRef({ page, bench });
  useEffect(() => {
    latest.current = { page, bench };
  });
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const found = pressed(event, latest.current.page.root);
      const deed = found ? DEEDS[found.action] : undefined;
      if (!found || !deed) return;
      event.preventDefault();
      deed(latest.current.page, latest.current.bench, found.key);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}

function stepHead(
  { state, update, announce }: Page,
  { layers, heads }: Bench,
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

function stepCoverage({ state, update, announce }: Page, bench: Bench, by: number): void {
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
