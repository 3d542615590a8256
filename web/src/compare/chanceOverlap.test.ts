/** Tests of the chance level of edge overlap. */

import { describe, expect, it } from "vitest";

import type { VisibleEdge, EdgeStatus } from "../flow/visibleFlow";
import { computeChanceJaccard, countEdgesByLayer } from "./chanceOverlap";

describe("computeChanceJaccard", () => {
  it("one layer: equals the mean over all pairs of sets", () => {
    // Two of four, twice: one pair in 6 shares both (Jaccard 1), four share one (1 / 3), one shares none.
    expect(computeChanceJaccard([{ a: 2, b: 2, possible: 4 }])).toBeCloseTo((1 + 4 / 3) / 6, 12);
  });

  it("several layers: shared edges add up", () => {
    // One of two in each of two layers: both shared 1/4 (Jaccard 1), one of them 1/2 (1 / 3), none 1/4.
    const layer = { a: 1, b: 1, possible: 2 };
    expect(computeChanceJaccard([layer, layer])).toBeCloseTo(1 / 4 + 1 / 6, 12);
  });

  it("sets as large as the candidates: returns 1", () => {
    expect(computeChanceJaccard([{ a: 5, b: 5, possible: 5 }, { a: 0, b: 0, possible: 9 }])).toBe(1); // prettier-ignore
  });

  it("large sets: no overflow", () => {
    // About a * b / N = 2.5 of 10 000 are shared by chance: 2.5 / 9997.5.
    const jaccard = computeChanceJaccard([{ a: 5000, b: 5000, possible: 1e7 }]);
    expect(jaccard).toBeGreaterThan(2.4e-4);
    expect(jaccard).toBeLessThan(2.6e-4);
  });

  it("no edges, or more edges than candidates: returns null", () => {
    expect(computeChanceJaccard([])).toBeNull();
    expect(computeChanceJaccard([{ a: 0, b: 0, possible: 3 }])).toBeNull();
    expect(computeChanceJaccard([{ a: 4, b: 1, possible: 3 }])).toBeNull();
  });
});

describe("countEdgesByLayer", () => {
  it("counts both sets in each layer", () => {
    const edge = (layer: number, status: EdgeStatus) => ({ layer, status }) as VisibleEdge;
    expect(countEdgesByLayer([edge(0, "shared"), edge(1, "a"), edge(1, "b"), edge(1, "b")], [9, 8])).toEqual([
      { a: 1, b: 1, possible: 9 },
      { a: 1, b: 2, possible: 8 },
    ]);
  });
});
