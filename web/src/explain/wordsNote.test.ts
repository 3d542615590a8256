import { expect, test } from "vitest";

import type { OneExplanation } from "../api/types";
import { wordsNote } from "./wordsNote";

const one = (words_by: OneExplanation["words_by"]): OneExplanation => ({
  method: "m",
  params: {},
  signed: true,
  scores: [1, 2],
  word_scores: [3],
  words_by,
  axioms: {},
  passes: { forward: 1, backward: 0 },
  seconds: 0,
  dtype: "float32",
});
const word = (tokens: number[]) => ({ text: "w", start: 0, end: 1, segment: 0, tokens });

test("a word of several pieces whose score is no sum is said to be one", () => {
  expect(wordsNote({ words: [word([0, 1])] }, one("measured"))).toContain("without the whole word");
  expect(wordsNote({ words: [word([0, 1])] }, one("mean"))).toContain("the mean");
});

test("sums, and words of one piece, need no note", () => {
  expect(wordsNote({ words: [word([0, 1])] }, one("sum"))).toBeNull();
  expect(wordsNote({ words: [word([0])] }, one("measured"))).toBeNull();
});
