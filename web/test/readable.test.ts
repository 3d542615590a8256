import { describe, expect, it } from "vitest";
import { readable } from "../src/flow/readable";
import { cover } from "../src/flow/shown";
import { fixture, large } from "./flows";

describe("readable", () => {
  it("is what was asked for, whatever it takes", () => {
    expect(readable(0.8, large(512, 12, 12, 5000))).toBe(0.8);
  });

  it("is half of a short text's flow", () => {
    expect(readable(null, fixture("attention"))).toBe(0.5);
  });

  it("is what two hundred edges carry where half would take more", () => {
    const flow = large(512, 12, 12, 5000);
    const share = readable(null, flow);
    expect(share).toBeLessThan(0.5);
    expect(cover(flow.edges.flow, flow.total, share)).toBeLessThanOrEqual(200);
    // Whole percents are rounded down, so that at most one percent more would have fitted.
    expect(cover(flow.edges.flow, flow.total, share + 0.01)).toBeGreaterThan(200);
  });

  it("bears the longer of two flows", () => {
    const flow = large(512, 12, 12, 5000);
    expect(readable(null, fixture("attention"), flow)).toBe(readable(null, flow));
  });
});
