import { describe, expect, it } from "vitest";

import type { Habits, Predicted } from "../api/types";
import { confusionRows } from "./confusion";
import { habitGrid, habitRows } from "./habits";
import { limitsFor } from "./Limit";
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

  it("stand in rows with their interval and n", () => {
    expect(habitRows(habits, "special")).toEqual([
      ["1.0", 1, 0.25, "20.0% to 30.0%", 0.25, 9, "looks at [SEP]"],
      ["0.1", 0, null, null, 0.25, 0, ""],
    ]);
  });
});
