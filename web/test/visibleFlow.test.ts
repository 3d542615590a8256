/** Tests of the selection of visible edges by coverage, for one flow or two, and of folded idle tokens. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { foldIdleTokens } from "../src/flow/idleTokens";
import { countCoveringEdges, MAX_EDGES, selectVisible } from "../src/flow/visibleFlow";
import { readFixture, makeLargeFlow, makeFlow } from "./flows";

const flows = fc
  .array(fc.double({ min: 1e-6, max: 1, noNaN: true }), { maxLength: 60 })
  .map((values) => values.sort((x, y) => y - x));
const share = fc.double({ min: 0, max: 1, noNaN: true });
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

describe("countCoveringEdges", () => {
  it("returns the shortest prefix that carries the share", () => {
    fc.assert(
      fc.property(flows, share, (values, p) => {
        const total = sum(values);
        const count = countCoveringEdges(values, total, p);
        // The tolerance is 1e-9 of the total, so that rounding never takes one more edge.
        expect(sum(values.slice(0, count))).toBeGreaterThanOrEqual(total * (p - 2e-9));
        if (count > 0) expect(sum(values.slice(0, count - 1))).toBeLessThan(total * p);
      }),
    );
  });

  it("share 0: none; share 1: all", () => {
    expect(countCoveringEdges([0.5, 0.3, 0.2], 1, 0)).toBe(0);
    expect(countCoveringEdges([0.5, 0.3, 0.2], 1, 0.5)).toBe(1);
    expect(countCoveringEdges([0.5, 0.3, 0.2], 1, 0.51)).toBe(2);
    expect(countCoveringEdges([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 1, 1)).toBe(10);
    expect(countCoveringEdges([0.5, 0.3], 2, 0.9)).toBe(2);
  });
});

describe("selectVisible", () => {
  it("real flow: visible edges carry the coverage", () => {
    const flow = readFixture("attention");
    const half = selectVisible(flow, 0.5);
    expect(half.covered).toBeGreaterThanOrEqual(0.5);
    expect(half.covered - (half.edges.at(-1)?.flow ?? 0) / flow.total).toBeLessThan(0.5);
    expect(half.edges.map((edge) => edge.index)).toEqual(half.edges.map((_, i) => i));
    expect(half.capped).toBe(false);
  });

  it("too few edges sent: reports capped", () => {
    const flow = readFixture("attention"); // sent: 700 of 2408 edges, 93% of the flow
    expect(selectVisible(flow, 0.99)).toMatchObject({ capped: true });
    expect(selectVisible(flow, 0.99).covered).toBeCloseTo(flow.sent / flow.total, 6);
    expect(selectVisible(flow, 0.9).capped).toBe(false);
  });

  it("more edges than the cap: cut, and reports capped", () => {
    const flow = makeLargeFlow(200, 12, 12, MAX_EDGES + 500);
    const all = selectVisible(flow, 1);
    expect(all.edges).toHaveLength(MAX_EDGES);
    expect(all.capped).toBe(true);
    expect(all.covered).toBeLessThan(1);
  });

  it("flow compared with itself: all shared", () => {
    fc.assert(
      fc.property(share, (p) => {
        const flow = readFixture("attention");
        const both = selectVisible(flow, p, flow);
        expect(both.jaccard).toBe(1);
        expect(both.edges.every((edge) => edge.status === "shared" && edge.a === edge.b)).toBe(true);
        expect(both.edges.map(({ layer, head, source, to }) => [layer, head, source, to])).toEqual(
          selectVisible(flow, p).edges.map(({ layer, head, source, to }) => [layer, head, source, to]),
        );
      }),
      { numRuns: 20 },
    );
  });

  it("two flows: split into shared, only A and only B", () => {
    const a = makeFlow({ tokens: ["[CLS]", "x", "y"], edges: [[1, 0, 0, 1, 0.6], [1, 1, 0, 2, 0.3], [0, 0, 1, 2, 0.1]] }); // prettier-ignore
    const b = makeFlow({ tokens: ["[CLS]", "x", "y"], edges: [[1, 0, 0, 1, 0.5], [0, 0, 1, 2, 0.4], [1, 1, 0, 2, 0.1]] }); // prettier-ignore
    // 0.9 of A takes its first two, 0.9 of B its first two: one in common, three in all.
    const both = selectVisible(a, 0.9, b);
    expect(both.jaccard).toBeCloseTo(1 / 3, 12);
    expect(
      both.edges.map(({ layer, head, source, to, status, a: inA, b: inB }) => [
        layer,
        head,
        source,
        to,
        status,
        inA,
        inB,
      ]),
    ).toEqual([
      [1, 0, 0, 1, "shared", 0.6, 0.5],
      [0, 0, 1, 2, "b", 0.1, 0.4],
      [1, 1, 0, 2, "a", 0.3, 0.1],
    ]);
  });

  it("swapped models: sides swap and nothing else", () => {
    const [a, b] = [readFixture("attention"), readFixture("norm")];
    const [there, back] = [selectVisible(a, 0.5, b), selectVisible(b, 0.5, a)];
    const swap = { only: "only", shared: "shared", a: "b", b: "a" } as const;
    expect(back.jaccard).toBe(there.jaccard);
    expect(
      back.edges.map((edge) => [
        edge.layer,
        edge.head,
        edge.source,
        edge.to,
        swap[edge.status],
        edge.b,
        edge.a,
      ]),
    ).toEqual(
      there.edges.map((edge) => [edge.layer, edge.head, edge.source, edge.to, edge.status, edge.a, edge.b]),
    );
  });
});

describe("foldIdleTokens", () => {
  it("columns and gaps cover all tokens in order", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), fc.array(fc.nat(59)), (tokens, kept) => {
        const shownTokens = new Set(kept.filter((token) => token < tokens));
        const columns = foldIdleTokens(tokens, shownTokens);
        const places = columns.flatMap((column) =>
          column.kind === "token"
            ? [column.token]
            : Array.from({ length: column.count }, (_, i) => column.from + i),
        );
        expect(places).toEqual(Array.from({ length: tokens }, (_, i) => i));
        for (const column of columns) if (column.kind === "gap") expect(column.count).toBeGreaterThan(1);
        for (const token of shownTokens) expect(columns).toContainEqual({ kind: "token", token });
      }),
    );
  });

  it("idle tokens in between: one gap", () => {
    expect(foldIdleTokens(6, new Set([0, 4]))).toEqual([
      { kind: "token", token: 0 },
      { kind: "gap", from: 1, count: 3 },
      { kind: "token", token: 4 },
      { kind: "token", token: 5 },
    ]);
  });
});
