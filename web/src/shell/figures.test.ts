import { describe, expect, it } from "vitest";

import { apart, count, figure, percent, plain, points, range, signed } from "./figures";

describe("figure", () => {
  it("never leaves a mean without its n", () => {
    expect(figure({ mean: 0.3104, low: 0.28, high: 0.35, n: 100 })).toBe("0.31 (0.28 to 0.35, n = 100)");
    expect(figure({ mean: 0.87, low: 0.792, high: 0.924, n: 100 }, percent)).toBe(
      "87.0% (79.2% to 92.4%, n = 100)",
    );
  });

  it("says why there is no interval, or no mean", () => {
    expect(figure({ mean: 0.5, low: null, high: null, n: 3 })).toBe("0.5 (n = 3, too few for an interval)");
    expect(figure({ mean: null, low: null, high: null, n: 0 })).toBe("not known (n = 0)");
  });
});

describe("numbers", () => {
  it("are short", () => {
    expect([0, 0.12345, 1234.5, -0.5].map(plain)).toEqual(["0", "0.123", "1230", "−0.5"]);
    expect(plain(0.00012)).toBe("1.2e−4");
    expect(plain(-0.00012)).toBe("−1.2e−4");
  });

  it("have a sign where they are changes", () => {
    expect([0.25, -0.25, 0].map(signed)).toEqual(["+0.25", "−0.25", "0"]);
  });

  it("change by points of a hundred", () => {
    expect([0.0473, -0.0473, 0].map(points)).toEqual(["+4.7%", "−4.7%", "0.0%"]);
  });

  it("are counted in words", () => {
    expect(count(1, "row")).toBe("1 row");
    expect(count(12_345, "row")).toBe("12\u202f345 rows");
  });
});

describe("intervals", () => {
  it("lie apart from zero, or do not", () => {
    expect(apart({ mean: 1, low: 0.1, high: 2, n: 9 })).toBe(true);
    expect(apart({ mean: -1, low: -2, high: -0.1, n: 9 })).toBe(true);
    expect(apart({ mean: 1, low: -0.1, high: 2, n: 9 })).toBe(false);
    expect(apart({ mean: 1, low: null, high: null, n: 2 })).toBe(false);
  });

  it("are a dash where none is known", () => {
    expect(range({ mean: 1, low: null, high: null, n: 2 })).toBe("–");
    expect(range({ mean: 1, low: -1, high: 2, n: 20 })).toBe("−1 to 2");
  });
});
