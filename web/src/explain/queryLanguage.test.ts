/** Tests of the query language that filters edges by word, layer, head and weight, and of its chips. */

import { expect, test } from "vitest";

import type { Token, Word } from "../api/types";
import { DEFAULT, type ViewState } from "../state/state";
import { type QueryContext, applyQuery, listChips, toggleHead, quoteWord } from "./queryLanguage";

function makeToken(text: string, segment = 0, special = false): Token {
  return { text, start: null, end: null, segment, special, id: 0 };
}

function makeWord(text: string, tokens: number[], segment = 0): Word {
  return { text, start: null, end: null, segment, tokens };
}

const QUERY_CONTEXT: QueryContext = {
  tokens: [
    makeToken("[CLS]", 0, true),
    makeToken("mov"),
    makeToken("##ie"),
    makeToken("bad"),
    makeToken("[SEP]", 0, true),
    makeToken("bad", 1),
    makeToken("[SEP]", 1, true),
  ],
  words: [makeWord("Movie", [1, 2]), makeWord("bad", [3]), makeWord("bad", [5], 1)],
  labels: ["negative", "positive"],
  layers: 12,
  heads: 8,
};

function applyTo(text: string, state: ViewState = DEFAULT): ViewState {
  const answer = applyQuery(text, state, QUERY_CONTEXT);
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
])("applyQuery: %s", (text, change) => {
  expect(applyTo(text)).toEqual({ ...DEFAULT, ...change });
});

test("applyQuery: adds to the active filters, without duplicates", () => {
  const once = applyTo("movie head:5.7");
  expect(applyTo("movie bad head:5.7 head:1.1", once)).toMatchObject({ tokens: [1, 2, 3, 5], heads: [[5, 7], [1, 1]] }); // prettier-ignore
});

test.each([
  ["plot", "No word here is or begins with “plot”."],
  ["pos:7", "pos: takes a token's number, 0 to 6, not “7”."],
  ["seg:C", "seg: takes A, B or a pair such as A>B, not “C”."],
  ["layer:12", "layer: takes a layer or a range within 0-11, not “12”."],
  ["head:12.0", "head: takes LAYER.HEAD, both from 0, at most 11.7, not “12.0”."],
  ["edge>2", "edge> takes a number from 0 to 1, not “2”."],
  ["class:maybe", "There is no class “maybe”; there are negative, positive."],
])("applyQuery: %s is refused with a reason", (text, problem) => {
  expect(applyQuery(text, DEFAULT, QUERY_CONTEXT)).toEqual({ problem });
});

test("applyQuery, one unknown term: changes nothing", () => {
  expect(applyQuery("movie head:99.0", DEFAULT, QUERY_CONTEXT)).toHaveProperty("problem");
});

test("applyQuery, single text: segments are refused", () => {
  const single = { ...QUERY_CONTEXT, tokens: QUERY_CONTEXT.tokens.slice(0, 5) };
  expect(applyQuery("seg:B", DEFAULT, single)).toEqual({
    problem: "This input has one text only, so it has no segments.",
  });
});

test("listChips: each chip removes its own filter and nothing else", () => {
  const state = applyTo("movie pos:4 seg:B layer:3-7 head:5.7 edge>0.2 class:neg", {
    ...DEFAULT,
    token: 3,
    direction: "through",
  });
  const all = listChips(state, QUERY_CONTEXT);
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
  for (const { label, removal } of all) {
    const left = listChips({ ...state, ...removal }, QUERY_CONTEXT).map((chip) => chip.label);
    expect(left).toEqual(all.map((chip) => chip.label).filter((other) => other !== label));
  }
  const none = all.reduce(
    (left, { label }) => ({
      ...left,
      ...listChips(left, QUERY_CONTEXT).find((chip) => chip.label === label)?.removal,
    }),
    state,
  );
  expect(none).toEqual(DEFAULT);
});

test("toggleHead: adds and removes a head", () => {
  expect(toggleHead([], [1, 2])).toEqual([[1, 2]]);
  expect(toggleHead([[1, 2], [3, 4]], [1, 2])).toEqual([[3, 4]]); // prettier-ignore
  expect(toggleHead([[1, 2]], [1, 2], true)).toEqual([[1, 2]]);
});

test("quoteWord: names a token by its word, or by its number without one", () => {
  expect(quoteWord(2, QUERY_CONTEXT)).toBe("“Movie”");
  expect(quoteWord(0, QUERY_CONTEXT)).toBe("“[CLS]”");
  expect(quoteWord(99, QUERY_CONTEXT)).toBe("token 99");
});
