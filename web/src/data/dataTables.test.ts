import { describe, expect, it } from "vitest";

import type { DataSet, Habits, Predicted } from "../api/types";
import { columnsAsked } from "./columns";
import { confusionRows, predictedSums } from "./confusion";
import { habitGrid, habitRows, topHead } from "./habits";
import { type LeaningWord, sharedEnds, shownWords } from "./leaning";
import { limitOf, limitsFor } from "./Limit";
import { marked } from "./marked";

describe("confusionRows", () => {
  it("gives counts, shares of the row and sums", () => {
    const predicted = { confusion: [[3, 1], [0, 0]], labels: ["neg", "pos"] } as unknown as Predicted; // prettier-ignore
    expect(confusionRows(predicted)).toEqual([
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

  it("sums what was predicted", () => {
    const predicted = { confusion: [[3, 1], [2, 5]], labels: ["neg", "pos"] } as unknown as Predicted; // prettier-ignore
    expect(predictedSums(confusionRows(predicted) ?? [])).toEqual([5, 6]);
  });

  it("is not there without labels", () => {
    expect(confusionRows({ confusion: null } as unknown as Predicted)).toBeNull();
  });
});

describe("marked", () => {
  it("finds a word whatever its case, and no part of another", () => {
    expect(marked("Art is a party. ART!", "art")).toEqual([
      { text: "Art", is: true },
      { text: " is a party. ", is: false },
      { text: "ART", is: true },
      { text: "!", is: false },
    ]);
  });

  it("takes signs as they are", () => {
    expect(marked("what (?) is", "(?)").filter(({ is }) => is)).toEqual([{ text: "(?)", is: true }]);
    expect(marked("as it is", "")).toEqual([{ text: "as it is", is: false }]);
  });
});

describe("limitsFor", () => {
  it("offers steps below the rows, and all of them", () => {
    expect(limitsFor(130, 10_000)).toEqual([20, 50, 100, 130]);
    expect(limitsFor(7, 10_000)).toEqual([7]);
  });

  it("offers no more than the server takes", () => {
    expect(limitsFor(5000, 2000).at(-1)).toBe(2000);
  });
});

describe("limitOf", () => {
  it("takes what the link says within what there is, else what is usual", () => {
    expect(limitOf(50, 872, 100, 2000)).toBe(50);
    expect(limitOf(null, 872, 100, 2000)).toBe(100);
    expect(limitOf(5000, 9000, 100, 2000)).toBe(2000);
    expect(limitOf(50, 7, 100, 2000)).toBe(7);
    expect(limitOf(null, 0, 100, 2000)).toBe(1);
  });
});

describe("the words of a class", () => {
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
    }) as LeaningWord;
  const words = [word("rare", 0.8, null), word("bad", 0.5, 0.125), word("good", -0.25, 0.25)];

  it("come first where an interval is known", () => {
    expect(shownWords(words, 9).map((each) => each.word)).toEqual(["bad", "good", "rare"]);
    expect(shownWords(words, 2).map((each) => each.word)).toEqual(["bad", "good"]);
  });

  it("have one scale, whiskers and all", () => {
    expect(sharedEnds([words.slice(1, 2), words.slice(2)])).toEqual({ least: -0.5, most: 0.625 });
    expect(sharedEnds([])).toEqual({ least: 0, most: 0 });
  });
});

describe("columnsAsked", () => {
  const set = { text: "a", pair: "b", label: "c" } as DataSet;

  it("changes one column and keeps the others", () => {
    expect(columnsAsked(set, "label", "d")).toEqual({ text: "a", pair: "b", label: "d" });
    expect(columnsAsked(set, "pair", null)).toEqual({ text: "a", pair: "", label: "c" });
  });

  it("takes no column twice", () => {
    expect(columnsAsked(set, "text", "b")).toEqual({ text: "b", pair: "", label: "c" });
    expect(columnsAsked(set, "label", "a")).toEqual({ text: null, pair: "b", label: "a" });
  });
});

describe("habits", () => {
  const share = { mean: 0.25, low: 0.2, high: 0.3, n: 9 };
  const habits = {
    heads: [
      { layer: 1, head: 0, shares: { special: share }, entropy: share, tokens: [], words: "looks at [SEP]" },
      { layer: 0, head: 1, shares: {}, entropy: share, tokens: [], words: "" },
    ],
  } as unknown as Habits;

  it("fill a grid of layers by heads", () => {
    expect(habitGrid(habits, "special")).toEqual([
      [null, null],
      [0.25, null],
    ]);
  });

  it("have a head that attends to a kind the most", () => {
    expect(topHead(habits, "special")).toEqual([1, 0]);
    expect(topHead({ ...habits, heads: [] }, "special")).toBeNull();
  });

  it("stand in rows with their interval and n", () => {
    expect(habitRows(habits, "special")).toEqual([
      ["1.0", 1, 0.25, "20.0% to 30.0%", 0.25, 9, "looks at [SEP]"],
      ["0.1", 0, null, null, 0.25, 0, ""],
    ]);
  });
});
