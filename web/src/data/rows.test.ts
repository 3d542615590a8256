/** Tests of the data set's rows, their query and neighbours. */

import { describe, expect, it } from "vitest";

import { findNeighbours } from "./neighbours";
import { parseRowQuery, DEFAULT_ROW_QUERY, formatRowQuery } from "./rowQuery";
import { NO_FILTER, BY_SURPRISE, isFiltered, sortRows, type Row, paginate, filterRows } from "./rows";

function makeRow(number: number, change: Partial<Row> = {}): Row {
  return {
    number,
    text: `text ${number}`,
    pair: null,
    label: "pos",
    predicted: "pos",
    probability: 0.9,
    surprise: 0.15,
    right: true,
    ...change,
  };
}

const ROWS: readonly Row[] = [
  makeRow(0, { text: "A dull film", surprise: 0.2 }),
  makeRow(1, { text: "gripping", predicted: "neg", right: false, surprise: 5.1 }),
  makeRow(2, { text: "fine", pair: "not DULL at all", label: "neg", right: false, surprise: 3 }),
  makeRow(3, { label: null, right: null, surprise: null }),
  makeRow(4, { surprise: 3 }),
];

const listNumbers = (rows: readonly Row[]): number[] => rows.map(({ number }) => number);

describe("filterRows", () => {
  it("search finds words in both texts, in any case", () => {
    expect(listNumbers(filterRows(ROWS, { ...NO_FILTER, search: " dull " }))).toEqual([0, 2]);
  });

  it("several filters: all must match", () => {
    expect(listNumbers(filterRows(ROWS, { ...NO_FILTER, label: "pos", predicted: "neg" }))).toEqual([1]);
    expect(listNumbers(filterRows(ROWS, { ...NO_FILTER, right: false }))).toEqual([1, 2]);
    expect(listNumbers(filterRows(ROWS, { ...NO_FILTER, right: false, label: "neg" }))).toEqual([2]);
    expect(listNumbers(filterRows(ROWS, { ...NO_FILTER, numbers: [4, 0, 99] }))).toEqual([0, 4]);
  });

  it("a row without a label is not counted as wrong", () => {
    expect(listNumbers(filterRows(ROWS, { ...NO_FILTER, right: true }))).toEqual([0, 4]);
  });
});

describe("sortRows", () => {
  it("by surprise: largest first, equals in file order, missing values last", () => {
    expect(listNumbers(sortRows(ROWS, BY_SURPRISE))).toEqual([1, 2, 4, 0, 3]);
    expect(listNumbers(sortRows(ROWS, { column: "surprise", descending: false }))).toEqual([0, 2, 4, 1, 3]);
  });

  it("text: sorted by locale", () => {
    const words = ["b", "A", "ä", "c"].map((text, number) => makeRow(number, { text }));
    expect(sortRows(words, { column: "text", descending: false }).map(({ text }) => text)).toEqual([
      "A",
      "ä",
      "b",
      "c",
    ]);
  });

  it("leaves its argument unchanged", () => {
    const before = listNumbers(ROWS);
    sortRows(ROWS, BY_SURPRISE);
    expect(listNumbers(ROWS)).toEqual(before);
  });

  it("10 000 rows: sorts and filters within a second", () => {
    const many = Array.from({ length: 10_000 }, (_, n) =>
      makeRow(n, { text: `text ${(n * 7919) % 10_007}`, surprise: (n * 31) % 997 }),
    );
    const begun = performance.now();
    const matches = sortRows(filterRows(many, { ...NO_FILTER, search: "9" }), {
      column: "text",
      descending: true,
    });
    // Measured at about 30 ms; 100 ms is noticeable while typing, 1 s is a defect.
    expect(performance.now() - begun).toBeLessThan(1000);
    expect(matches.length).toBeGreaterThan(1000);
  });
});

describe("paginate", () => {
  it("cuts pages and clamps the page number", () => {
    expect(listNumbers(paginate(ROWS, 1, 2).rows)).toEqual([2, 3]);
    expect(paginate(ROWS, 9, 2)).toMatchObject({ page: 2, pages: 3 });
    expect(paginate(ROWS, -1, 2).page).toBe(0);
    expect(paginate([], 0, 2)).toEqual({ rows: [], page: 0, pages: 1 });
  });
});

describe("row query in the link", () => {
  it("round trip: restores the query", () => {
    const query = {
      filter: { search: "a & b = c", label: "", predicted: "pos/neg", right: false, numbers: [3, 17] },
      order: { column: "text", descending: true },
      page: 2,
      at: 0,
      predict: 500,
      take: 50,
      least: 1,
      place: "same word",
    } as const;
    expect(parseRowQuery(formatRowQuery(query))).toEqual(query);
  });

  it('default query: written as ""', () => {
    expect(formatRowQuery(DEFAULT_ROW_QUERY)).toBe("");
    expect(parseRowQuery("")).toEqual(DEFAULT_ROW_QUERY);
    expect(isFiltered(parseRowQuery("").filter)).toBe(false);
  });

  it("unreadable parts: get their default", () => {
    expect(parseRowQuery("by=-colour&right=perhaps&numbers=1.x&page=-1&take=0&least=0&at=x")).toEqual(
      DEFAULT_ROW_QUERY,
    );
  });
});

describe("findNeighbours", () => {
  it("follows the order and the filter of the table", () => {
    // By surprise: 1, 2, 4, 0, 3.
    expect(findNeighbours(ROWS, { ...DEFAULT_ROW_QUERY, at: 2 })).toMatchObject({
      place: 2,
      of: 5,
      before: { number: 1 },
      after: { number: 4 },
    });
    const wrong = { ...DEFAULT_ROW_QUERY, filter: { ...NO_FILTER, right: false }, at: 2 };
    expect(findNeighbours(ROWS, wrong)).toMatchObject({ place: 2, of: 2, after: null });
    expect(findNeighbours(ROWS, { ...DEFAULT_ROW_QUERY, at: 1 })?.before).toBeNull();
  });

  it("row outside of the filter: returns null", () => {
    expect(findNeighbours(ROWS, { ...DEFAULT_ROW_QUERY, at: 99 })).toBeNull();
    expect(findNeighbours(ROWS, DEFAULT_ROW_QUERY)).toBeNull();
  });
});
