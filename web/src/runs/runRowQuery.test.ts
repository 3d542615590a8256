import fc from "fast-check";
import { expect, test } from "vitest";

import { type Asked, USUAL, questionOf, readFound, writeFound } from "./rowlink";
import { addressOf, agoOf, fewOf, progressOf, stateOf } from "./told";

const name = fc.string({ unit: "binary", minLength: 1, maxLength: 20 });
const asked: fc.Arbitrary<Asked> = fc
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

test("a link restores which rows are shown", () => {
  fc.assert(
    fc.property(asked, (one) => {
      expect(readFound(writeFound(one))).toEqual(one);
    }),
    { numRuns: 300, seed: 9 },
  );
});

test("what cannot be read is left out", () => {
  expect(readFound("order=sideways&page=-1&failed=perhaps&at=1e9")).toEqual(USUAL);
});

test("the server is not asked about what is open", () => {
  expect(questionOf({ ...USUAL, at: 3, by: "attcat" })).toBe("");
  expect(questionOf({ ...USUAL, order: "best" })).toBe(""); // without a metric there is nothing to go by
  expect(questionOf({ ...USUAL, search: " a&b ", metric: "aopc", order: "worst", page: 2 })).toBe(
    "?search=a%26b&metric=aopc&order=worst&page=2",
  );
});

test("a run that is silent for long is not called running", () => {
  expect(stateOf({ state: "running", quiet: 3 })).toBe("running");
  expect(stateOf({ state: "running", quiet: 4000 })).toBe("unfinished");
  expect(stateOf({ state: "complete", quiet: 4000 })).toBe("complete");
});

test("figures of the list", () => {
  expect(progressOf({ done: 1500, total: 67349 })).toBe("1\u202f500 of 67\u202f349");
  expect(progressOf({ done: 12, total: null })).toBe("12");
  expect([null, 2, 30, 125, 7200, 200_000].map(agoOf)).toEqual([
    "–",
    "just now",
    "30 s ago",
    "2 min ago",
    "2 h ago",
    "2 days ago",
  ]);
  expect(fewOf(["a", "b", "c", "d", "e"])).toBe("a, b, c + 2");
  expect(fewOf([])).toBe("–");
});

test("an id is no path", () => {
  expect(addressOf("../a?b", "page", null)).toBe("/api/runs/..%2Fa%3Fb/page");
  expect(addressOf("a", "report", "b&c", "md")).toBe("/api/runs/a/report?format=md&other=b%26c");
});
