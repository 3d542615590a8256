import { expect, test } from "vitest";

import type { Flow } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import { specialShare, statusOf } from "./status";

const FLOW = {
  // Two layers; level 2 holds 1, level 1 holds 0.5: the edges of layer 1 move 1 x 0.5, those of layer 0 0.5 x 0.8.
  nodes: [[], [0.25, 0.25], [1, 0]],
  residual_share: [0.2, 0.5],
  special_share: [0.25, 0.5],
  total: 0.6,
  whole: 0.9,
} as unknown as Flow;
const SHOWN = {
  flow: FLOW,
  edges: Array.from({ length: 67 }),
  covered: 0.5,
  capped: false,
} as unknown as ShownFlow;

test("special tokens by what flows in each layer", () => {
  // (0.25 x 0.4 + 0.5 x 0.5) / (0.4 + 0.5) = 0.35 / 0.9
  expect(specialShare(FLOW)).toBeCloseTo(0.35 / 0.9, 12);
});

test("what is shown is a share of all that flows, whatever is filtered", () => {
  // 0.5 of 0.6 is 0.3, a third of 0.9.
  expect(statusOf(SHOWN, "what the filters let through")).toBe(
    "shown 67 edges = 33% of the flow (50% of what the filters let through) · special tokens 39% · residual 20–50% per layer",
  );
});

test("without a filter there is one share only", () => {
  const flow = { ...FLOW, whole: 0.6, residual_share: [0.5, 0.5] };
  expect(statusOf({ ...SHOWN, flow, capped: true }, "")).toMatch(
    /^shown 67 edges = 50% of the flow · special tokens \d+% · residual 50% per layer · capped: more edges belong here/,
  );
});

test("nothing flows, and nothing is divided by it", () => {
  const flow = {
    ...FLOW,
    nodes: [[], [], []],
    special_share: [null, null],
    residual_share: [null, null],
    total: 0,
    whole: 0,
  };
  expect(statusOf({ ...SHOWN, flow, edges: [], covered: 0 }, "")).toBe(
    "shown 0 edges = 0% of the flow · special tokens 0% · residual not known per layer",
  );
});
