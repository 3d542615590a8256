/** Tests of the note on word scores: shown only where a word of several tokens has no summed score. */

import { expect, test } from "vitest";

import type { MethodExplanation } from "../api/types";
import { describeWordScores } from "./wordScoreNote";

const makeExplanation = (words_by: MethodExplanation["words_by"]): MethodExplanation => ({
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
const makeWord = (tokens: number[]) => ({ text: "w", start: 0, end: 1, segment: 0, tokens });

test("word of several tokens whose score is no sum: gets a note", () => {
  expect(describeWordScores({ words: [makeWord([0, 1])] }, makeExplanation("measured"))).toContain(
    "without the whole word",
  );
  expect(describeWordScores({ words: [makeWord([0, 1])] }, makeExplanation("mean"))).toContain("the mean");
});

test("sums and words of one token: no note", () => {
  expect(describeWordScores({ words: [makeWord([0, 1])] }, makeExplanation("sum"))).toBeNull();
  expect(describeWordScores({ words: [makeWord([0])] }, makeExplanation("measured"))).toBeNull();
});
