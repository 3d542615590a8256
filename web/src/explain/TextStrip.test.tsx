// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";

import type { Flow, OneExplanation } from "../api/types";
import { contrast } from "../render/theme";
import { DARK, LIGHT } from "../render/theme";
import { tint } from "../render/tint";
import { TextStrip } from "./TextStrip";
import type { Spoken } from "./units";

afterEach(cleanup);

const HOSTILE = "<img src=x onerror=alert(1)>";
const SPOKEN: Spoken = {
  input: { text: `Not  ${HOSTILE}!`, pair: "so bad", dropped: 0 },
  tokens: ["[CLS]", "Not", HOSTILE, "!", "[SEP]", "so", "ba", "##d"].map((text, index) => ({
    text,
    start: null,
    end: null,
    segment: index > 4 ? 1 : 0,
    special: text.startsWith("["),
    id: index,
  })),
  words: [
    { text: "Not", start: 0, end: 3, segment: 0, tokens: [1] },
    { text: HOSTILE, start: 5, end: 33, segment: 0, tokens: [2] },
    { text: "!", start: 33, end: 34, segment: 0, tokens: [3] },
    { text: "so", start: 0, end: 2, segment: 1, tokens: [5] },
    { text: "bad", start: 3, end: 6, segment: 1, tokens: [6, 7] },
  ],
};
const ONE: OneExplanation = {
  method: "attcat",
  params: {},
  signed: true,
  scores: [9, -0.5, 0.2, 0, 9, 0.1, 1, 1],
  word_scores: [-0.5, 0.2, 0, 0.1, 2],
  words_by: "sum",
  axioms: {},
  passes: { forward: 1, backward: 1 },
  seconds: 0,
  dtype: "float32",
};
// Half of the flow ends on special tokens, the rest on "Not" and on the two tokens of "bad".
const FLOW = { shares: [0.5, 0.1, 0, 0, 0, 0, 0.1, 0.3] } as unknown as Flow;

function show(change: Partial<Parameters<typeof TextStrip>[0]> = {}) {
  const props = {
    explanations: SPOKEN,
    one: ONE,
    flow: FLOW,
    asWords: true,
    pinned: [],
    theme: LIGHT,
    onPin: vi.fn(),
    onRead: vi.fn(),
    ...change,
  };
  render(<TextStrip {...props} />);
  return props;
}

function units(): HTMLElement[] {
  return screen.getAllByRole("button");
}

test("the text stands as it was given, segment by segment", () => {
  show();
  const [a, b] = document.querySelectorAll(".segment");
  expect(a?.textContent).toBe(`ANot  ${HOSTILE}!`);
  expect(b?.textContent).toBe("Bso bad");
  expect(document.querySelector("img")).toBeNull();
});

test("the strongest word has full colour, for is blue and against vermillion", () => {
  show();
  const colours = units().map((unit) => unit.style.background);
  const full = tint(1, true, LIGHT).background;
  expect(colours[4]).toBe(asRgb(full));
  expect(colours[0]).toBe(asRgb(tint(-0.25, true, LIGHT).background));
  expect(colours[2]).toBe(asRgb("#ffffff"));
});

test("special tokens are shown with the tokens, and do not set the scale", () => {
  show({ asWords: false });
  expect(units()).toHaveLength(8);
  // The largest word has 2, so its tokens of 1 have half of the colour, and the special token of 9 no more than all.
  expect(units()[6]?.style.background).toBe(asRgb(tint(0.5, true, LIGHT).background));
  expect(units()[0]?.style.background).toBe(asRgb(tint(1, true, LIGHT).background));
  expect(units()[0]?.className).toContain("special");
});

test("the underline is the share of the flow that ends on the word", () => {
  show();
  // Shares 0.1, 0, 0, 0, 0.4: a quarter of the largest is 5 / 4 pixels, that is 1.
  expect(units().map((unit) => unit.style.borderBottomWidth)).toEqual(["1px", "0px", "0px", "0px", "5px"]);
});

test("number and rank are told on hover and on focus, without a word of React", () => {
  const { onRead } = show();
  fireEvent.pointerOver(units()[4] as HTMLElement);
  expect(onRead).toHaveBeenLastCalledWith("bad: +2, rank 1 of 5; 40.0% of the traced flow ends here");
  fireEvent.focus(units()[0] as HTMLElement);
  expect(onRead).toHaveBeenLastCalledWith("Not: −0.5, rank 2 of 5; 10.0% of the traced flow ends here");
});

test("a click pins, with shift it adds", () => {
  const { onPin } = show();
  fireEvent.click(units()[4] as HTMLElement);
  expect(onPin).toHaveBeenLastCalledWith(expect.objectContaining({ text: "bad", tokens: [6, 7] }), false);
  fireEvent.click(units()[0] as HTMLElement, { shiftKey: true });
  expect(onPin).toHaveBeenLastCalledWith(expect.objectContaining({ text: "Not", tokens: [1] }), true);
});

test("what is pinned says so", () => {
  show({ pinned: [7] });
  expect(units().map((unit) => unit.getAttribute("aria-pressed"))).toEqual([
    "false",
    "false",
    "false",
    "false",
    "true",
  ]);
});

test("arrow keys walk from word to word, and one word is in the order of tabs", () => {
  show();
  units()[0]?.focus();
  fireEvent.keyDown(units()[0] as HTMLElement, { key: "ArrowRight" });
  expect(document.activeElement).toBe(units()[1]);
  fireEvent.keyDown(units()[1] as HTMLElement, { key: "End" });
  expect(document.activeElement).toBe(units()[4]);
  fireEvent.keyDown(units()[4] as HTMLElement, { key: "ArrowRight" });
  expect(document.activeElement).toBe(units()[4]);
  expect(units().filter((unit) => unit.tabIndex === 0)).toEqual([units()[4]]);
});

test("every ink can be read on its tint, in both themes", () => {
  for (const theme of [LIGHT, DARK]) {
    for (const signed of [true, false]) {
      for (let shade = -1; shade <= 1; shade += 0.01) {
        const { background, color } = tint(shade, signed, theme);
        expect(contrast(background, color)).toBeGreaterThanOrEqual(4.5);
      }
    }
  }
});

function asRgb(hex: string): string {
  const value = Number.parseInt(hex.slice(1), 16);
  return `rgb(${value >> 16}, ${(value >> 8) & 255}, ${value & 255})`;
}
