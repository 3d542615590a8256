import { describe, expect, it } from "vitest";

import type { ShownEdge, Status } from "../flow/shown";
import { chanceJaccard, sizesOf } from "./chance";

describe("chanceJaccard", () => {
  it("is the mean over all pairs of sets", () => {
    // Two of four, twice: one pair in 6 shares both (Jaccard 1), four share one (1 / 3), one shares none.
    expect(chanceJaccard([{ a: 2, b: 2, possible: 4 }])).toBeCloseTo((1 + 4 / 3) / 6, 12);
  });

  it("adds up what layers share", () => {
    // One of two in each of two layers: both shared 1/4 (Jaccard 1), one of them 1/2 (1 / 3), none 1/4.
    const layer = { a: 1, b: 1, possible: 2 };
    expect(chanceJaccard([layer, layer])).toBeCloseTo(1 / 4 + 1 / 6, 12);
  });

  it("is one where there is no choice", () => {
    expect(chanceJaccard([{ a: 5, b: 5, possible: 5 }, { a: 0, b: 0, possible: 9 }])).toBe(1); // prettier-ignore
  });

  it("stands large sets", () => {
    // About a * b / N = 2.5 of 10 000 are shared by chance: 2.5 / 9997.5.
    const found = chanceJaccard([{ a: 5000, b: 5000, possible: 1e7 }]);
    expect(found).toBeGreaterThan(2.4e-4);
    expect(found).toBeLessThan(2.6e-4);
  });

  it("is not known for nothing, nor for more edges than there are", () => {
    expect(chanceJaccard([])).toBeNull();
    expect(chanceJaccard([{ a: 0, b: 0, possible: 3 }])).toBeNull();
    expect(chanceJaccard([{ a: 4, b: 1, possible: 3 }])).toBeNull();
  });
});

describe("sizesOf", () => {
  it("counts both sets by layer", () => {
    const edge = (layer: number, status: Status) => ({ layer, status }) as ShownEdge;
    expect(sizesOf([edge(0, "shared"), edge(1, "a"), edge(1, "b"), edge(1, "b")], [9, 8])).toEqual([
      { a: 1, b: 1, possible: 9 },
      { a: 1, b: 2, possible: 8 },
    ]);
  });
});
