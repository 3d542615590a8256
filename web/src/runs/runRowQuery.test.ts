/** Tests of the run row query (link round trip, defaults, server query), and of run texts and URLs. */

import fc from "fast-check";
import { expect, test } from "vitest";

import {
  type RunRowQuery,
  DEFAULT_RUN_ROW_QUERY,
  formatServerQuery,
  parseRunRowQuery,
  formatRunRowQuery,
} from "./runRowQuery";
import { buildRunUrl, formatAgo, formatNames, formatProgress, formatState } from "./runFormat";

const name = fc.string({ unit: "binary", minLength: 1, maxLength: 20 });
const query: fc.Arbitrary<RunRowQuery> = fc
  .record({
    method: fc.option(name),
    failed: fc.option(fc.boolean()),
    search: fc.string({ unit: "binary", maxLength: 20 }).map((text) => text.trim()),
    metric: fc.option(name),
    order: fc.constantFrom("data" as const, "best" as const, "worst" as const),
    page: fc.nat(9_999_999),
    at: fc.option(fc.nat(9_999_999)),
    by: fc.option(name),
  })
  // An order goes by a metric, and a method is that of an open row.
  .map((one) => ({
    ...one,
    order: one.metric === null ? ("data" as const) : one.order,
    by: one.at === null ? null : one.by,
  }));

test("round trip through the link: restores the query", () => {
  fc.assert(
    fc.property(query, (one) => {
      expect(parseRunRowQuery(formatRunRowQuery(one))).toEqual(one);
    }),
    { numRuns: 300, seed: 9 },
  );
});

test("unreadable parts: get their default", () => {
  expect(parseRunRowQuery("order=sideways&page=-1&failed=perhaps&at=1e9")).toEqual(DEFAULT_RUN_ROW_QUERY);
});

test("formatServerQuery: leaves out the open row", () => {
  expect(formatServerQuery({ ...DEFAULT_RUN_ROW_QUERY, at: 3, by: "attcat" })).toBe("");
  expect(formatServerQuery({ ...DEFAULT_RUN_ROW_QUERY, order: "best" })).toBe(""); // without a metric there is nothing to go by
  expect(
    formatServerQuery({ ...DEFAULT_RUN_ROW_QUERY, search: " a&b ", metric: "aopc", order: "worst", page: 2 }),
  ).toBe("?search=a%26b&metric=aopc&order=worst&page=2");
});

test("formatState: a run without a sign of life is not called running", () => {
  expect(formatState({ state: "running", quiet: 3 })).toBe("running");
  expect(formatState({ state: "running", quiet: 4000 })).toBe("unfinished");
  expect(formatState({ state: "complete", quiet: 4000 })).toBe("complete");
});

test("formatProgress, formatAgo, formatNames: short texts", () => {
  expect(formatProgress({ done: 1500, total: 67349 })).toBe("1\u202f500 of 67\u202f349");
  expect(formatProgress({ done: 12, total: null })).toBe("12");
  expect([null, 2, 30, 125, 7200, 200_000].map(formatAgo)).toEqual([
    "–",
    "just now",
    "30 s ago",
    "2 min ago",
    "2 h ago",
    "2 days ago",
  ]);
  expect(formatNames(["a", "b", "c", "d", "e"])).toBe("a, b, c + 2");
  expect(formatNames([])).toBe("–");
});

test("buildRunUrl: escapes the run's id", () => {
  expect(buildRunUrl("../a?b", "page")).toBe("/api/runs/..%2Fa%3Fb/page");
  expect(buildRunUrl("a", "report", "md")).toBe("/api/runs/a/report?format=md");
});
