import { expect, test } from "vitest";

import type { Flow } from "../api/types";
import type { ShownEdge, ShownFlow } from "../flow/shown";
import { reached, statusOf } from "./status";

// Two layers. Of the unit, 0.5 goes past layer 1 and 0.2 past layer 0; half and a quarter of the rest end on special tokens.
const FLOW = {
  layers: 2,
  direction: "back",
  nodes: [[0.6, 0.4], [0.25, 0.75], [1, 0]], // prettier-ignore
  residual: [[0.1, 0.1], [0.5, 0]], // prettier-ignore
  residual_share: [0.2, 0.5],
  special_share: [0.25, 0.5],
  total: 0.6,
  whole: 1.3,
} as unknown as Flow;
const edge = (layer: number, a: number): ShownEdge =>
  ({ layer, a, b: 0, flow: a, status: "only" }) as ShownEdge;
const SHOWN = {
  flow: FLOW,
  edges: [edge(1, 0.2), edge(1, 0.11), edge(0, 0.03)],
  coverage: 0.5,
  covered: 0.57,
  capped: false,
} as unknown as ShownFlow;

test("what is shown, what goes past and what ends on special tokens are shares of the unit, layer by layer", () => {
  expect(statusOf(SHOWN, "what the filters let through")).toBe(
    "shown 3 edges = 3–31% of the unit that set out, in each layer · past the layer 20–50% · " +
      "to special tokens 20–25% · coverage 57% of what the filters let through",
  );
});

test("edges that carry almost nothing are not called half of the flow", () => {
  const flow = { ...FLOW, residual: [[0.6, 0.4], [0.992, 0]], special_share: [null, 0] } as unknown as Flow; // prettier-ignore
  const said = statusOf({ ...SHOWN, flow, edges: [edge(1, 0.004)], covered: 0.5 }, "what the edges carry");
  expect(said).toMatch(
    /^shown 1 edge = 0–0.4% of the unit that set out, in each layer · past the layer 99–100% · /,
  );
});

test("where the cap on edges stops coverage, slider and line say what was reached", () => {
  const capped = { ...SHOWN, coverage: 0.9, covered: 0.38, capped: true };
  expect(statusOf(capped, "what the edges carry")).toContain(
    "coverage 38% of what the edges carry, not 90%: capped at the strongest 5\u202f000 edges",
  );
  expect(reached(capped)).toBe("38% of 90%");
  expect(reached(SHOWN)).toBe("50%");
});

test("forward from a word, levels do not add up to one: shares are of what passes the layer", () => {
  const flow = { ...FLOW, direction: "forward", nodes: [[1, 0], [1, 1], [2, 2]] } as unknown as Flow; // prettier-ignore
  expect(statusOf({ ...SHOWN, flow }, "what the edges carry")).toMatch(
    /^shown 3 edges = 1.5–7.8% of what passes the layer, in each layer · past the layer 10–13% · /,
  );
});

test("nothing flows, and nothing is divided by it", () => {
  const flow = { ...FLOW, nodes: [[], [], []], residual: [[], []], special_share: [null, null] } as Flow;
  expect(statusOf({ ...SHOWN, flow, edges: [], covered: 0 }, "what the edges carry")).toBe(
    "shown 0 edges = 0% of the unit that set out, in each layer · past the layer 0% · " +
      "to special tokens 0% · coverage 0% of what the edges carry",
  );
});
