/** Tests of data page functions: confusion rows, word matches, row limits, word ranking, columns, head patterns. */

import { describe, expect, it } from "vitest";

import type { DataSet, AttentionPatterns, PredictionData } from "../api/types";
import { changeColumn } from "./columnRoles";
import { buildConfusionRows, countPredictions } from "./confusionRows";
import { buildShareGrid, buildPatternRows, findTopHead } from "./patternRows";
import { type ClassWord, findScoreRange, rankWords } from "./wordRanking";
import { resolveLimit, listLimits } from "./RowLimit";
import { splitAtWord } from "./wordMatches";

describe("buildConfusionRows", () => {
  it("returns counts, row shares and sums", () => {
    const predictions = { confusion: [[3, 1], [0, 0]], labels: ["neg", "pos"] } as unknown as PredictionData; // prettier-ignore
    expect(buildConfusionRows(predictions)).toEqual([
      {
        label: "neg",
        total: 4,
        cells: [
          { predicted: "neg", count: 3, share: 0.75 },
          { predicted: "pos", count: 1, share: 0.25 },
        ],
      },
      {
        label: "pos",
        total: 0,
        cells: [
          { predicted: "neg", count: 0, share: 0 },
          { predicted: "pos", count: 0, share: 0 },
        ],
      },
    ]);
  });

  it("countPredictions sums each column", () => {
    const predictions = { confusion: [[3, 1], [2, 5]], labels: ["neg", "pos"] } as unknown as PredictionData; // prettier-ignore
    expect(countPredictions(buildConfusionRows(predictions) ?? [])).toEqual([5, 6]);
  });

  it("no true labels: returns null", () => {
    expect(buildConfusionRows({ confusion: null } as unknown as PredictionData)).toBeNull();
  });
});

describe("splitAtWord", () => {
  it("matches whole words in any case", () => {
    expect(splitAtWord("Art is a party. ART!", "art")).toEqual([
      { text: "Art", isMatch: true },
      { text: " is a party. ", isMatch: false },
      { text: "ART", isMatch: true },
      { text: "!", isMatch: false },
    ]);
  });

  it("punctuation in the word: matched literally", () => {
    expect(splitAtWord("what (?) is", "(?)").filter(({ isMatch }) => isMatch)).toEqual([
      { text: "(?)", isMatch: true },
    ]);
    expect(splitAtWord("as it is", "")).toEqual([{ text: "as it is", isMatch: false }]);
  });
});

describe("listLimits", () => {
  it("lists steps below the number of rows, and all rows", () => {
    expect(listLimits(130, 10_000)).toEqual([20, 50, 100, 130]);
    expect(listLimits(7, 10_000)).toEqual([7]);
  });

  it("lists no more rows than the server accepts", () => {
    expect(listLimits(5000, 2000).at(-1)).toBe(2000);
  });
});

describe("resolveLimit", () => {
  it("takes the link's limit within rows and server maximum, else the default", () => {
    expect(resolveLimit(50, 872, 100, 2000)).toBe(50);
    expect(resolveLimit(null, 872, 100, 2000)).toBe(100);
    expect(resolveLimit(5000, 9000, 100, 2000)).toBe(2000);
    expect(resolveLimit(50, 7, 100, 2000)).toBe(7);
    expect(resolveLimit(null, 0, 100, 2000)).toBe(1);
  });
});

describe("wordRanking", () => {
  const word = (name: string, mean: number, half: number | null) =>
    ({
      word: name,
      score: {
        mean,
        low: half === null ? null : mean - half,
        high: half === null ? null : mean + half,
        n: half === null ? 3 : 9,
      },
      examples: [],
    }) as ClassWord;
  const words = [word("rare", 0.8, null), word("bad", 0.5, 0.125), word("good", -0.25, 0.25)];

  it("rankWords puts words with an interval first", () => {
    expect(rankWords(words, 9).map((each) => each.word)).toEqual(["bad", "good", "rare"]);
    expect(rankWords(words, 2).map((each) => each.word)).toEqual(["bad", "good"]);
  });

  it("findScoreRange covers all classes and their intervals", () => {
    expect(findScoreRange([words.slice(1, 2), words.slice(2)])).toEqual({ least: -0.5, most: 0.625 });
    expect(findScoreRange([])).toEqual({ least: 0, most: 0 });
  });
});

describe("changeColumn", () => {
  const set = { text: "a", pair: "b", label: "c" } as DataSet;

  it("changes one column and keeps the others", () => {
    expect(changeColumn(set, "label", "d")).toEqual({ text: "a", pair: "b", label: "d" });
    expect(changeColumn(set, "pair", null)).toEqual({ text: "a", pair: "", label: "c" });
  });

  it("never uses a column for two roles", () => {
    expect(changeColumn(set, "text", "b")).toEqual({ text: "b", pair: "", label: "c" });
    expect(changeColumn(set, "label", "a")).toEqual({ text: null, pair: "b", label: "a" });
  });
});

describe("patternRows", () => {
  const share = { mean: 0.25, low: 0.2, high: 0.3, n: 9 };
  const patterns = {
    heads: [
      { layer: 1, head: 0, shares: { special: share }, entropy: share, tokens: [], words: "looks at [SEP]" },
      { layer: 0, head: 1, shares: {}, entropy: share, tokens: [], words: "" },
    ],
  } as unknown as AttentionPatterns;

  it("buildShareGrid fills layers by heads", () => {
    expect(buildShareGrid(patterns, "special")).toEqual([
      [null, null],
      [0.25, null],
    ]);
  });

  it("findTopHead finds the largest share of a kind", () => {
    expect(findTopHead(patterns, "special")).toEqual([1, 0]);
    expect(findTopHead({ ...patterns, heads: [] }, "special")).toBeNull();
  });

  it("buildPatternRows has the interval and n of each head", () => {
    expect(buildPatternRows(patterns, "special")).toEqual([
      ["1.0", 1, 0.25, "20.0% to 30.0%", 0.25, 9, "looks at [SEP]"],
      ["0.1", 0, null, null, 0.25, 0, ""],
    ]);
  });
});
