import { describe, expect, it } from "vitest";

import type { Compared, Comparison, Session } from "../api/types";
import type { ShownEdge, ShownFlow, Status } from "../flow/shown";
import { DEFAULT } from "../state/state";
import { swapped } from "./asked";
import { headDataRows, headRows, highest, layerRows, meanGrid } from "./changed";
import { modelsOf, namesFor, shortened } from "./models";
import { commonLabels, predictionRows } from "./predictions";
import { counted, identical, setSentence } from "./sets";

const SESSION = {
  models: [{ id: "m0", name: "base" }, { id: "m1", name: "tuned" }],
  compare: null,
} as unknown as Session; // prettier-ignore

describe("modelsOf", () => {
  it("takes the link's, else the server's pair, else its first two, else one twice", () => {
    expect(modelsOf({ model: "x", other: "y" }, SESSION)).toEqual({ a: "x", b: "y" });
    expect(modelsOf({ model: "", other: "" }, { ...SESSION, compare: ["m1", "m0"] })).toEqual({
      a: "m1",
      b: "m0",
    });
    expect(modelsOf({ model: "", other: "" }, SESSION)).toEqual({ a: "m0", b: "m1" });
    expect(modelsOf({ model: "m1", other: "" }, SESSION)).toEqual({ a: "m0", b: "m1" });
    expect(modelsOf({ model: "", other: "" }, { ...SESSION, models: SESSION.models.slice(0, 1) })).toEqual({
      a: "m0",
      b: "m0",
    });
  });

  it("swaps, and swaps back", () => {
    const change = swapped(DEFAULT, SESSION);
    expect(change).toEqual({ model: "m1", other: "m0" });
    expect(swapped({ ...DEFAULT, ...change }, SESSION)).toEqual({ model: "m0", other: "m1" });
  });

  it("tells a model from itself", () => {
    expect(namesFor({ a: "m0", b: "m1" }, SESSION)).toEqual(["base", "tuned"]);
    expect(namesFor({ a: "m0", b: "m0" }, SESSION)).toEqual(["base (A)", "base (B)"]);
  });

  it("shortens paths as far as they stay different", () => {
    const models = (names: readonly string[]) =>
      ({ models: names.map((name) => ({ id: name, name })) }) as unknown as Session;
    const near = models(["/here/base/", "org/tuned"]);
    expect(namesFor({ a: "/here/base/", b: "org/tuned" }, near)).toEqual(["base", "tuned"]);
    const alike = models(["one/bert", "two/bert"]);
    expect(namesFor({ a: "one/bert", b: "two/bert" }, alike)).toEqual(["one/bert", "two/bert"]);
  });
});

describe("shortened", () => {
  it("puts the names of the page in the place of paths", () => {
    const models = { a: { name: "/m/bert" }, b: { name: "/m/bert-tuned" } };
    expect(shortened("/m/bert-tuned is not /m/bert.", models, ["bert", "bert-tuned"])).toBe(
      "bert-tuned is not bert.",
    );
  });

  it("leaves names that are words", () => {
    const models = { a: { name: "base" }, b: { name: "tuned" } };
    expect(shortened("Based on base.", models, ["A", "B"])).toBe("Based on base.");
  });
});

describe("commonLabels", () => {
  it("are those of both, or of the one that has any", () => {
    expect(commonLabels(["x", "y"], ["y", "z"])).toEqual(["y"]);
    expect(commonLabels([], ["y", "z"])).toEqual(["y", "z"]);
  });
});

function flowOf(statuses: readonly Status[], jaccard: number | null): ShownFlow {
  const edges = statuses.map((status, index) => ({ index, layer: 0, status }) as ShownEdge);
  return { edges, jaccard, coverage: 0.5 } as unknown as ShownFlow;
}

describe("setSentence", () => {
  it("counts what is shared and what is not", () => {
    const flow = flowOf(["shared", "a", "a", "b"], 0.25);
    expect(counted(flow.edges)).toEqual({ shared: 1, a: 2, b: 1 });
    const words = "4 edges for a coverage of 50.0%: 1 shared, 2 only in A, 1 only in B. Jaccard index 0.25";
    // 3 and 2 of 3 edges: all of B's are among A's, 2 / 3 of all.
    expect(setSentence(flow, false, [3])).toBe(`${words}; of random edges, as many in each layer, 0.67.`);
    expect(setSentence(flow, false, [])).toBe(`${words}.`);
  });

  it("says identical only of models that are", () => {
    expect(setSentence(flowOf(["shared"], 1), true, [9])).toMatch(/^Identical: every edge is shared/);
    expect(setSentence(flowOf(["shared"], 1), false, [9])).toMatch(
      /^Every edge is shared: a coverage of 50.0% takes the same 1 edge/,
    );
  });

  it("says where there is nothing", () => {
    expect(setSentence(flowOf([], 1), false, [9])).toBe("No edge answers to the query in either model.");
  });
});

describe("identical", () => {
  const same = {
    divergence: [[0, 0]],
    difference: { a: [0.5], b: [0.5] },
    predictions: [{ logits: [1, 2] }, { logits: [1, 2] }],
  } as unknown as Compared;

  it("needs the heads, the flow and the logits to be the same", () => {
    expect(identical(same)).toBe(true);
    expect(identical({ ...same, divergence: [[0, 1e-9]] })).toBe(false);
    expect(identical({ ...same, difference: { ...same.difference, b: [0.4] } })).toBe(false);
    const [a] = same.predictions;
    expect(identical({ ...same, predictions: [a, a && { ...a, logits: [1, 2.1] }] })).toBe(false);
  });
});

describe("predictionRows", () => {
  it("has every label of either model, and the change in points", () => {
    const rows = predictionRows([
      { probabilities: { neg: 0.75, pos: 0.25 } },
      { probabilities: { neg: 0.5, pos: 0.25, odd: 0.25 } },
    ] as unknown as Compared["predictions"]);
    expect(rows).toEqual([
      { label: "neg", a: 0.75, b: 0.5, change: "−25.0" },
      { label: "pos", a: 0.25, b: 0.25, change: "0.0" },
      { label: "odd", a: null, b: 0.25, change: "–" },
    ]);
  });

  it("is empty where neither predicts", () => {
    expect(predictionRows([null, null])).toEqual([]);
  });
});

describe("what changed most", () => {
  it("lists heads as they come", () => {
    const changed = [{ layer: 2, head: 1, divergence: 0.4, decision: 0.1 }];
    expect(headRows({ changed })).toEqual([["2.1", 2, 0.4, 0.1]]);
  });

  it("ranks layers and names the head that changed most in each", () => {
    const rows = layerRows({ layers: [0.1, 0.3], divergence: [[0.2, 0], [0.1, 0.5]], decision: [[0, 1], [null, 0.5]] }); // prettier-ignore
    // The decision's row: (0 + 1) / 2 in layer 0; the one known value in layer 1.
    expect(rows).toEqual([
      [1, 0.3, 0.5, "1.1"],
      [0, 0.1, 0.5, "0.0"],
    ]);
  });

  it("puts the heads of a data set in order, with intervals and n", () => {
    const of = (mean: number) => ({ mean, low: mean - 0.1, high: mean + 0.1, n: 20 });
    const pair = { a: of(0.2), b: of(0.5), change: of(0.3) };
    const heads = [0.2, 0.6].map((mean, head) => ({
      layer: 0,
      head,
      divergence: of(mean),
      decision: of(mean / 2),
      special: pair,
      entropy: pair,
    }));
    const rows = headDataRows({ heads } as unknown as Comparison);
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
    expect(meanGrid(heads as unknown as Comparison["heads"], "divergence")).toEqual([[0.2, 0.6]]);
  });

  it("always has a scale", () => {
    expect(highest([[0, null]])).toBe(1);
    expect(highest([[0.1, 0.7]])).toBe(0.7);
  });
});
