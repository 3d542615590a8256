import { expect, test } from "vitest";

import type { Token, Word } from "../api/types";
import { DEFAULT, type ViewState } from "../state/state";
import { type Ground, ask, chips, toggled, wordAt } from "./query";

function token(text: string, segment = 0, special = false): Token {
  return { text, start: null, end: null, segment, special, id: 0 };
}

function word(text: string, tokens: number[], segment = 0): Word {
  return { text, start: null, end: null, segment, tokens };
}

const GROUND: Ground = {
  tokens: [
    token("[CLS]", 0, true),
    token("mov"),
    token("##ie"),
    token("bad"),
    token("[SEP]", 0, true),
    token("bad", 1),
    token("[SEP]", 1, true),
  ],
  words: [word("Movie", [1, 2]), word("bad", [3]), word("bad", [5], 1)],
  labels: ["negative", "positive"],
  layers: 12,
  heads: 8,
};

function after(written: string, state: ViewState = DEFAULT): ViewState {
  const answer = ask(written, state, GROUND);
  if ("problem" in answer) throw new Error(answer.problem);
  return { ...state, ...answer.change };
}

test.each([
  ["movie", { tokens: [1, 2] }],
  ["MOV", { tokens: [1, 2] }],
  ["bad", { tokens: [3, 5] }],
  ['"bad"', { tokens: [3, 5] }],
  ["pos:4", { tokens: [4] }],
  ["seg:B", { segments: ["A>B", "B>B"] }],
  ["seg:a>b", { segments: ["A>B"] }],
  ["layer:3-7", { layers: [3, 7] }],
  ["layer:11", { layers: [11, 11] }],
  ["head:5.7", { heads: [[5, 7]] }],
  ["edge>0.2", { least: 0.2 }],
  ["class:neg", { target: "negative" }],
  ["movie head:0.1 edge>=.5", { tokens: [1, 2], heads: [[0, 1]], least: 0.5 }],
  ["", {}],
])("%s", (written, change) => {
  expect(after(written)).toEqual({ ...DEFAULT, ...change });
});

test("a query adds to what is in force, and nothing twice", () => {
  const once = after("movie head:5.7");
  expect(after("movie bad head:5.7 head:1.1", once)).toMatchObject({ tokens: [1, 2, 3, 5], heads: [[5, 7], [1, 1]] }); // prettier-ignore
});

test.each([
  ["plot", "No word here is or begins with “plot”."],
  ["pos:7", "pos: takes a token's number, 0 to 6, not “7”."],
  ["seg:C", "seg: takes A, B or a pair such as A>B, not “C”."],
  ["layer:12", "layer: takes a layer or a range within 0-11, not “12”."],
  ["head:12.0", "head: takes LAYER.HEAD, both from 0, at most 11.7, not “12.0”."],
  ["edge>2", "edge> takes a number from 0 to 1, not “2”."],
  ["class:maybe", "There is no class “maybe”; there are negative, positive."],
])("%s is refused with a reason", (written, problem) => {
  expect(ask(written, DEFAULT, GROUND)).toEqual({ problem });
});

test("one term that is not understood leaves all as it was", () => {
  expect(ask("movie head:99.0", DEFAULT, GROUND)).toHaveProperty("problem");
});

test("an input of one text has no segments", () => {
  const single = { ...GROUND, tokens: GROUND.tokens.slice(0, 5) };
  expect(ask("seg:B", DEFAULT, single)).toEqual({
    problem: "This input has one text only, so it has no segments.",
  });
});

test("each chip takes away what it names, and nothing else", () => {
  const state = after("movie pos:4 seg:B layer:3-7 head:5.7 edge>0.2 class:neg", {
    ...DEFAULT,
    token: 3,
    direction: "through",
  });
  const all = chips(state, GROUND);
  expect(all.map(({ label }) => label)).toEqual([
    "through “bad”",
    "touches “Movie”",
    "touches “[SEP]”",
    "layers 3–7",
    "head 5.7",
    "A attends to B",
    "within B",
    "weight ≥ 0.2",
    "class negative",
  ]);
  for (const { label, without } of all) {
    const left = chips({ ...state, ...without }, GROUND).map((chip) => chip.label);
    expect(left).toEqual(all.map((chip) => chip.label).filter((other) => other !== label));
  }
  const none = all.reduce(
    (left, { label }) => ({ ...left, ...chips(left, GROUND).find((chip) => chip.label === label)?.without }),
    state,
  );
  expect(none).toEqual(DEFAULT);
});

test("a head is put in and taken out", () => {
  expect(toggled([], [1, 2])).toEqual([[1, 2]]);
  expect(toggled([[1, 2], [3, 4]], [1, 2])).toEqual([[3, 4]]); // prettier-ignore
  expect(toggled([[1, 2]], [1, 2], true)).toEqual([[1, 2]]);
});

test("a token is named by its word, and by its number where there is none", () => {
  expect(wordAt(2, GROUND)).toBe("“Movie”");
  expect(wordAt(0, GROUND)).toBe("“[CLS]”");
  expect(wordAt(99, GROUND)).toBe("token 99");
});
