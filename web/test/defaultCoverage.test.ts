/** Tests of chooseCoverage: as requested, else half of the flow, or less to stay within 200 edges. */

import { describe, expect, it } from "vitest";
import { chooseCoverage } from "../src/flow/defaultCoverage";
import { countCoveringEdges } from "../src/flow/visibleFlow";
import { readFixture, makeLargeFlow } from "./flows";

describe("chooseCoverage", () => {
  it("requested coverage: returned, whatever it takes", () => {
    expect(chooseCoverage(0.8, makeLargeFlow(512, 12, 12, 5000))).toBe(0.8);
  });

  it("short text: half of the flow", () => {
    expect(chooseCoverage(null, readFixture("attention"))).toBe(0.5);
  });

  it("half takes more than 200 edges: the share of 200 edges", () => {
    const flow = makeLargeFlow(512, 12, 12, 5000);
    const share = chooseCoverage(null, flow);
    expect(share).toBeLessThan(0.5);
    expect(countCoveringEdges(flow.edges.flow, flow.total, share)).toBeLessThanOrEqual(200);
    // Whole percents are rounded down, so that at most one percent more would have fitted.
    expect(countCoveringEdges(flow.edges.flow, flow.total, share + 0.01)).toBeGreaterThan(200);
  });

  it("two flows: readable for the larger", () => {
    const flow = makeLargeFlow(512, 12, 12, 5000);
    expect(chooseCoverage(null, readFixture("attention"), flow)).toBe(chooseCoverage(null, flow));
  });
});
