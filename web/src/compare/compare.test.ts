/** Tests of compare page functions: model pair and names, labels, edge overlap, prediction and change rows. */

import { describe, expect, it } from "vitest";

import type { InputComparisonData, Comparison, Session } from "../api/types";
import type { VisibleEdge, VisibleFlow, EdgeStatus } from "../flow/visibleFlow";
import { DEFAULT } from "../state/state";
import { swapModels } from "./compareRequest";
import { buildHeadDataRows, buildHeadRows, findMaximum, buildLayerRows, buildMeanGrid } from "./changeTables";
import { resolveModelPair, nameModelPair, shortenModelNames } from "./modelPair";
import { findCommonLabels, buildPredictionRows } from "./predictionRows";
import { countEdges, areIdentical, describeOverlap } from "./edgeSets";

const SESSION = {
  models: [{ id: "m0", name: "base" }, { id: "m1", name: "tuned" }],
  compare: null,
} as unknown as Session; // prettier-ignore

describe("resolveModelPair", () => {
  it("prefers the link, then the server's pair, then its first two models, then one model twice", () => {
    expect(resolveModelPair({ model: "x", other: "y" }, SESSION)).toEqual({ a: "x", b: "y" });
    expect(resolveModelPair({ model: "", other: "" }, { ...SESSION, compare: ["m1", "m0"] })).toEqual({
      a: "m1",
      b: "m0",
    });
    expect(resolveModelPair({ model: "", other: "" }, SESSION)).toEqual({ a: "m0", b: "m1" });
    expect(resolveModelPair({ model: "m1", other: "" }, SESSION)).toEqual({ a: "m0", b: "m1" });
    expect(
      resolveModelPair({ model: "", other: "" }, { ...SESSION, models: SESSION.models.slice(0, 1) }),
    ).toEqual({
      a: "m0",
      b: "m0",
    });
  });

  it("swapModels applied twice: restores the state", () => {
    const change = swapModels(DEFAULT, SESSION);
    expect(change).toEqual({ model: "m1", other: "m0" });
    expect(swapModels({ ...DEFAULT, ...change }, SESSION)).toEqual({ model: "m0", other: "m1" });
  });

  it("a model compared with itself: gets two names", () => {
    expect(nameModelPair({ a: "m0", b: "m1" }, SESSION)).toEqual(["base", "tuned"]);
    expect(nameModelPair({ a: "m0", b: "m0" }, SESSION)).toEqual(["base (A)", "base (B)"]);
  });

  it("paths: shortened as long as they stay distinct", () => {
    const models = (names: readonly string[]) =>
      ({ models: names.map((name) => ({ id: name, name })) }) as unknown as Session;
    const near = models(["/here/base/", "org/tuned"]);
    expect(nameModelPair({ a: "/here/base/", b: "org/tuned" }, near)).toEqual(["base", "tuned"]);
    const alike = models(["one/bert", "two/bert"]);
    expect(nameModelPair({ a: "one/bert", b: "two/bert" }, alike)).toEqual(["one/bert", "two/bert"]);
  });
});

describe("shortenModelNames", () => {
  it("paths in a sentence: replaced by the page's names", () => {
    const models = { a: { name: "/m/bert" }, b: { name: "/m/bert-tuned" } };
    expect(shortenModelNames("/m/bert-tuned is not /m/bert.", models, ["bert", "bert-tuned"])).toBe(
      "bert-tuned is not bert.",
    );
  });

  it("names without a path: left unchanged", () => {
    const models = { a: { name: "base" }, b: { name: "tuned" } };
    expect(shortenModelNames("Based on base.", models, ["A", "B"])).toBe("Based on base.");
  });
});

describe("findCommonLabels", () => {
  it("lists the labels of both models, or of the only one with labels", () => {
    expect(findCommonLabels(["x", "y"], ["y", "z"])).toEqual(["y"]);
    expect(findCommonLabels([], ["y", "z"])).toEqual(["y", "z"]);
  });
});

function makeVisible(statuses: readonly EdgeStatus[], jaccard: number | null): VisibleFlow {
  const edges = statuses.map((status, index) => ({ index, layer: 0, status }) as VisibleEdge);
  return { edges, jaccard, coverage: 0.5 } as unknown as VisibleFlow;
}

describe("describeOverlap", () => {
  it("counts shared and unshared edges", () => {
    const flow = makeVisible(["shared", "a", "a", "b"], 0.25);
    expect(countEdges(flow.edges)).toEqual({ shared: 1, a: 2, b: 1 });
    const words = "4 edges for a coverage of 50.0%: 1 shared, 2 only in A, 1 only in B. Jaccard index 0.25";
    // 3 and 2 of 3 edges: all of B's are among A's, 2 / 3 of all.
    expect(describeOverlap(flow, false, [3])).toBe(`${words}; of random edges, as many in each layer, 0.67.`);
    expect(describeOverlap(flow, false, [])).toBe(`${words}.`);
  });

  it("says identical only for identical models", () => {
    expect(describeOverlap(makeVisible(["shared"], 1), true, [9])).toMatch(
      /^Identical: every edge is shared/,
    );
    expect(describeOverlap(makeVisible(["shared"], 1), false, [9])).toMatch(
      /^Every edge is shared: a coverage of 50.0% takes the same 1 edge/,
    );
  });

  it("no edges: says so", () => {
    expect(describeOverlap(makeVisible([], 1), false, [9])).toBe(
      "No edge answers to the query in either model.",
    );
  });
});

describe("areIdentical", () => {
  const same = {
    divergence: [[0, 0]],
    difference: { a: [0.5], b: [0.5] },
    predictions: [{ logits: [1, 2] }, { logits: [1, 2] }],
  } as unknown as InputComparisonData;

  it("requires equal heads, flow and logits", () => {
    expect(areIdentical(same)).toBe(true);
    expect(areIdentical({ ...same, divergence: [[0, 1e-9]] })).toBe(false);
    expect(areIdentical({ ...same, difference: { ...same.difference, b: [0.4] } })).toBe(false);
    const [a] = same.predictions;
    expect(areIdentical({ ...same, predictions: [a, a && { ...a, logits: [1, 2.1] }] })).toBe(false);
  });
});

describe("buildPredictionRows", () => {
  it("has every label of either model, and the change in points", () => {
    const rows = buildPredictionRows([
      { probabilities: { neg: 0.75, pos: 0.25 } },
      { probabilities: { neg: 0.5, pos: 0.25, odd: 0.25 } },
    ] as unknown as InputComparisonData["predictions"]);
    expect(rows).toEqual([
      { label: "neg", a: 0.75, b: 0.5, change: "−25.0" },
      { label: "pos", a: 0.25, b: 0.25, change: "0.0" },
      { label: "odd", a: null, b: 0.25, change: "–" },
    ]);
  });

  it("no predictions: returns no rows", () => {
    expect(buildPredictionRows([null, null])).toEqual([]);
  });
});

describe("changeTables", () => {
  it("buildHeadRows keeps the server's order", () => {
    const changed = [{ layer: 2, head: 1, divergence: 0.4, decision: 0.1 }];
    expect(buildHeadRows({ changed })).toEqual([["2.1", 2, 0.4, 0.1]]);
  });

  it("buildLayerRows sorts layers and names the most changed head of each", () => {
    const rows = buildLayerRows({ layers: [0.1, 0.3], divergence: [[0.2, 0], [0.1, 0.5]], decision: [[0, 1], [null, 0.5]] }); // prettier-ignore
    // The decision's row: (0 + 1) / 2 in layer 0; the one known value in layer 1.
    expect(rows).toEqual([
      [1, 0.3, 0.5, "1.1"],
      [0, 0.1, 0.5, "0.0"],
    ]);
  });

  it("buildHeadDataRows sorts heads, with intervals and n", () => {
    const makeInterval = (mean: number) => ({ mean, low: mean - 0.1, high: mean + 0.1, n: 20 });
    const pair = { a: makeInterval(0.2), b: makeInterval(0.5), change: makeInterval(0.3) };
    const heads = [0.2, 0.6].map((mean, head) => ({
      layer: 0,
      head,
      divergence: makeInterval(mean),
      decision: makeInterval(mean / 2),
      special: pair,
      entropy: pair,
    }));
    const rows = buildHeadDataRows({ heads } as unknown as Comparison);
    expect(rows[0]).toEqual([
      "0.1",
      0,
      0.6,
      "0.500 to 0.700",
      0.3,
      "0.200 to 0.400",
      0.3,
      "+20.0% to +40.0%",
      20,
    ]);
    expect(rows.map(([name]) => name)).toEqual(["0.1", "0.0"]);
    expect(buildMeanGrid(heads as unknown as Comparison["heads"], "divergence")).toEqual([[0.2, 0.6]]);
  });

  it("findMaximum of zeros: returns 1", () => {
    expect(findMaximum([[0, null]])).toBe(1);
    expect(findMaximum([[0.1, 0.7]])).toBe(0.7);
  });
});
