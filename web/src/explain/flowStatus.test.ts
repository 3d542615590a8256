/** Tests of the flow's status line: shares by layer, capped coverage, forward trace, empty flow. */

import { expect, test } from "vitest";

import type { Flow } from "../api/types";
import type { VisibleEdge, VisibleFlow } from "../flow/visibleFlow";
import { formatReachedCoverage, formatFlowStatus } from "./flowStatus";

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
const makeEdge = (layer: number, a: number): VisibleEdge =>
  ({ layer, a, b: 0, flow: a, status: "only" }) as VisibleEdge;
const VISIBLE = {
  flow: FLOW,
  edges: [makeEdge(1, 0.2), makeEdge(1, 0.11), makeEdge(0, 0.03)],
  coverage: 0.5,
  covered: 0.57,
  capped: false,
} as unknown as VisibleFlow;

test("visible, skip and special-token flow are shares of the unit, by layer", () => {
  expect(formatFlowStatus(VISIBLE, "what the filters let through")).toBe(
    "shown 3 edges = 3–31% of the unit that set out, in each layer · past the layer 20–50% · " +
      "to special tokens 20–25% · coverage 57% of what the filters let through",
  );
});

test("edges with a negligible share of the unit are not reported as half of the flow", () => {
  const flow = { ...FLOW, residual: [[0.6, 0.4], [0.992, 0]], special_share: [null, 0] } as unknown as Flow; // prettier-ignore
  const status = formatFlowStatus(
    { ...VISIBLE, flow, edges: [makeEdge(1, 0.004)], covered: 0.5 },
    "what the edges carry",
  );
  expect(status).toMatch(
    /^shown 1 edge = 0–0.4% of the unit that set out, in each layer · past the layer 99–100% · /,
  );
});

test("capped edges: slider and line give the reached coverage", () => {
  const capped = { ...VISIBLE, coverage: 0.9, covered: 0.38, capped: true };
  expect(formatFlowStatus(capped, "what the edges carry")).toContain(
    "coverage 38% of what the edges carry, not 90%: capped at the strongest 5\u202f000 edges",
  );
  expect(formatReachedCoverage(capped)).toBe("38% of 90%");
  expect(formatReachedCoverage(VISIBLE)).toBe("50%");
});

test("forward trace: shares are of the mass that passes the layer", () => {
  const flow = { ...FLOW, direction: "forward", nodes: [[1, 0], [1, 1], [2, 2]] } as unknown as Flow; // prettier-ignore
  expect(formatFlowStatus({ ...VISIBLE, flow }, "what the edges carry")).toMatch(
    /^shown 3 edges = 1.5–7.8% of what passes the layer, in each layer · past the layer 10–13% · /,
  );
});

test("empty flow: shares are 0, not NaN", () => {
  const flow = { ...FLOW, nodes: [[], [], []], residual: [[], []], special_share: [null, null] } as Flow;
  expect(formatFlowStatus({ ...VISIBLE, flow, edges: [], covered: 0 }, "what the edges carry")).toBe(
    "shown 0 edges = 0% of the unit that set out, in each layer · past the layer 0% · " +
      "to special tokens 0% · coverage 0% of what the edges carry",
  );
});
