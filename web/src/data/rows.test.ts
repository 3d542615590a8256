import { describe, expect, it } from "vitest";

import { neighbours } from "./neighbours";
import { readRows, USUAL, writeRows } from "./rowlink";
import { ALL, BY_SURPRISE, isFiltered, orderedRows, type Row, sheet, wantedRows } from "./rows";

function row(number: number, change: Partial<Row> = {}): Row {
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
  row(0, { text: "A dull film", surprise: 0.2 }),
  row(1, { text: "gripping", predicted: "neg", right: false, surprise: 5.1 }),
  row(2, { text: "fine", pair: "not DULL at all", label: "neg", right: false, surprise: 3 }),
  row(3, { label: null, right: null, surprise: null }),
  row(4, { surprise: 3 }),
];

const numbers = (rows: readonly Row[]): number[] => rows.map(({ number }) => number);

describe("wantedRows", () => {
  it("finds words in both texts, whatever their case", () => {
    expect(numbers(wantedRows(ROWS, { ...ALL, search: " dull " }))).toEqual([0, 2]);
  });

  it("keeps what answers to every filter", () => {
    expect(numbers(wantedRows(ROWS, { ...ALL, label: "pos", predicted: "neg" }))).toEqual([1]);
    expect(numbers(wantedRows(ROWS, { ...ALL, right: false }))).toEqual([1, 2]);
    expect(numbers(wantedRows(ROWS, { ...ALL, right: false, label: "neg" }))).toEqual([2]);
    expect(numbers(wantedRows(ROWS, { ...ALL, numbers: [4, 0, 99] }))).toEqual([0, 4]);
  });

  it("does not take a row without a label for a wrong one", () => {
    expect(numbers(wantedRows(ROWS, { ...ALL, right: true }))).toEqual([0, 4]);
  });
});

describe("orderedRows", () => {
  it("puts surprise first, equals in the order of the file, and what has none last", () => {
    expect(numbers(orderedRows(ROWS, BY_SURPRISE))).toEqual([1, 2, 4, 0, 3]);
    expect(numbers(orderedRows(ROWS, { column: "surprise", descending: false }))).toEqual([0, 2, 4, 1, 3]);
  });

  it("sorts words as people do", () => {
    const words = ["b", "A", "ä", "c"].map((text, number) => row(number, { text }));
    expect(orderedRows(words, { column: "text", descending: false }).map(({ text }) => text)).toEqual([
      "A",
      "ä",
      "b",
      "c",
    ]);
  });

  it("leaves what it was given as it was", () => {
    const before = numbers(ROWS);
    orderedRows(ROWS, BY_SURPRISE);
    expect(numbers(ROWS)).toEqual(before);
  });

  it("sorts and filters ten thousand rows within a blink", () => {
    const many = Array.from({ length: 10_000 }, (_, n) =>
      row(n, { text: `text ${(n * 7919) % 10_007}`, surprise: (n * 31) % 997 }),
    );
    const begun = performance.now();
    const found = orderedRows(wantedRows(many, { ...ALL, search: "9" }), {
      column: "text",
      descending: true,
    });
    // Measured at some 30 ms; a tenth of a second is what a hand on the keys feels, ten times that is a defect.
    expect(performance.now() - begun).toBeLessThan(1000);
    expect(found.length).toBeGreaterThan(1000);
  });
});

describe("sheet", () => {
  it("cuts pages and stays within them", () => {
    expect(numbers(sheet(ROWS, 1, 2).rows)).toEqual([2, 3]);
    expect(sheet(ROWS, 9, 2)).toMatchObject({ page: 2, pages: 3 });
    expect(sheet(ROWS, -1, 2).page).toBe(0);
    expect(sheet([], 0, 2)).toEqual({ rows: [], page: 0, pages: 1 });
  });
});

describe("the rows in the link", () => {
  it("come back as they were", () => {
    const asked = {
      wanted: { search: "a & b = c", label: "", predicted: "pos/neg", right: false, numbers: [3, 17] },
      order: { column: "text", descending: true },
      page: 2,
      at: 0,
      predict: 500,
      take: 50,
      least: 1,
      place: "same word",
    } as const;
    expect(readRows(writeRows(asked))).toEqual(asked);
  });

  it("are nothing by default", () => {
    expect(writeRows(USUAL)).toBe("");
    expect(readRows("")).toEqual(USUAL);
    expect(isFiltered(readRows("").wanted)).toBe(false);
  });

  it("leave out what cannot be read", () => {
    expect(readRows("by=-colour&right=perhaps&numbers=1.x&page=-1&take=0&least=0&at=x")).toEqual(USUAL);
  });
});

describe("neighbours", () => {
  it("are those of the order that is shown, among the rows that are wanted", () => {
    // By surprise: 1, 2, 4, 0, 3.
    expect(neighbours(ROWS, { ...USUAL, at: 2 })).toMatchObject({
      place: 2,
      of: 5,
      before: { number: 1 },
      after: { number: 4 },
    });
    const wrong = { ...USUAL, wanted: { ...ALL, right: false }, at: 2 };
    expect(neighbours(ROWS, wrong)).toMatchObject({ place: 2, of: 2, after: null });
    expect(neighbours(ROWS, { ...USUAL, at: 1 })?.before).toBeNull();
  });

  it("are not there for a row that is not", () => {
    expect(neighbours(ROWS, { ...USUAL, at: 99 })).toBeNull();
    expect(neighbours(ROWS, USUAL)).toBeNull();
  });
});
