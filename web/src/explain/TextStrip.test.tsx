// @vitest-environment jsdom
/** Tests of the text strip: colours, special tokens, flow underline, hover, pins, arrow keys and ink contrast. */

import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";

import type { Flow, MethodExplanation } from "../api/types";
import { computeContrast } from "../render/theme";
import { DARK, LIGHT } from "../render/theme";
import { tintShade } from "../render/tint";
import { TextStrip } from "./TextStrip";
import type { TokenizedText } from "./textFeatures";

afterEach(cleanup);

const HOSTILE = "<img src=x onerror=alert(1)>";
const SPOKEN: TokenizedText = {
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
const ONE: MethodExplanation = {
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

function renderStrip(change: Partial<Parameters<typeof TextStrip>[0]> = {}) {
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

function listWords(): HTMLElement[] {
  return screen.getAllByRole("button");
}

test("the text is shown as given, segment by segment", () => {
  renderStrip();
  const [a, b] = document.querySelectorAll(".segment");
  expect(a?.textContent).toBe(`ANot  ${HOSTILE}!`);
  expect(b?.textContent).toBe("Bso bad");
  expect(document.querySelector("img")).toBeNull();
});

test("the strongest word has full colour: blue for, vermillion against", () => {
  renderStrip();
  const colours = listWords().map((feature) => feature.style.background);
  const full = tintShade(1, true, LIGHT).background;
  expect(colours[4]).toBe(asRgb(full));
  expect(colours[0]).toBe(asRgb(tintShade(-0.25, true, LIGHT).background));
  expect(colours[2]).toBe(asRgb("#ffffff"));
});

test("special tokens are shown among tokens, and do not set the scale", () => {
  renderStrip({ asWords: false });
  expect(listWords()).toHaveLength(8);
  // The largest word has 2, so its tokens of 1 have half of the colour, and the special token of 9 no more than all.
  expect(listWords()[6]?.style.background).toBe(asRgb(tintShade(0.5, true, LIGHT).background));
  expect(listWords()[0]?.style.background).toBe(asRgb(tintShade(1, true, LIGHT).background));
  expect(listWords()[0]?.className).toContain("special");
});

test("the underline's thickness follows the share of the flow that ends on the word", () => {
  renderStrip();
  // Shares 0.1, 0, 0, 0, 0.4: a quarter of the largest is 5 / 4 pixels, that is 1.
  expect(listWords().map((feature) => feature.style.borderBottomWidth)).toEqual([
    "1px",
    "0px",
    "0px",
    "0px",
    "5px",
  ]);
});

test("hover and focus: report score, rank and share of the flow", () => {
  const { onRead } = renderStrip();
  fireEvent.pointerOver(listWords()[4] as HTMLElement);
  expect(onRead).toHaveBeenLastCalledWith("bad: +2, rank 1 of 5; 40.0% of the traced flow ends here");
  fireEvent.focus(listWords()[0] as HTMLElement);
  expect(onRead).toHaveBeenLastCalledWith("Not: −0.5, rank 2 of 5; 10.0% of the traced flow ends here");
});

test("a click pins the word, shift-click adds it", () => {
  const { onPin } = renderStrip();
  fireEvent.click(listWords()[4] as HTMLElement);
  expect(onPin).toHaveBeenLastCalledWith(expect.objectContaining({ text: "bad", tokens: [6, 7] }), false);
  fireEvent.click(listWords()[0] as HTMLElement, { shiftKey: true });
  expect(onPin).toHaveBeenLastCalledWith(expect.objectContaining({ text: "Not", tokens: [1] }), true);
});

test("a pinned word is marked as pressed", () => {
  renderStrip({ pinned: [7] });
  expect(listWords().map((feature) => feature.getAttribute("aria-pressed"))).toEqual([
    "false",
    "false",
    "false",
    "false",
    "true",
  ]);
});

test("arrow keys move between words, and only one word is in the tab order", () => {
  renderStrip();
  listWords()[0]?.focus();
  fireEvent.keyDown(listWords()[0] as HTMLElement, { key: "ArrowRight" });
  expect(document.activeElement).toBe(listWords()[1]);
  fireEvent.keyDown(listWords()[1] as HTMLElement, { key: "End" });
  expect(document.activeElement).toBe(listWords()[4]);
  fireEvent.keyDown(listWords()[4] as HTMLElement, { key: "ArrowRight" });
  expect(document.activeElement).toBe(listWords()[4]);
  expect(listWords().filter((feature) => feature.tabIndex === 0)).toEqual([listWords()[4]]);
});

test("ink contrast is sufficient on every tint in both themes", () => {
  for (const theme of [LIGHT, DARK]) {
    for (const signed of [true, false]) {
      for (let shade = -1; shade <= 1; shade += 0.01) {
        const { background, color } = tintShade(shade, signed, theme);
        expect(computeContrast(background, color)).toBeGreaterThanOrEqual(4.5);
      }
    }
  }
});

function asRgb(hex: string): string {
  const value = Number.parseInt(hex.slice(1), 16);
  return `rgb(${value >> 16}, ${(value >> 8) & 255}, ${value & 255})`;
}
