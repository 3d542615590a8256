/** Tests of the number formats: means with n and interval, signs, percentage points, counts. */

import { describe, expect, it } from "vitest";

import {
  excludesZero,
  formatCount,
  formatEstimate,
  formatPercent,
  formatPlain,
  formatPoints,
  formatInterval,
  formatSigned,
} from "./numberFormat";

describe("formatEstimate", () => {
  it("mean: always has its n", () => {
    expect(formatEstimate({ mean: 0.3104, low: 0.28, high: 0.35, n: 100 })).toBe(
      "0.31 (0.28 to 0.35, n = 100)",
    );
    expect(formatEstimate({ mean: 0.87, low: 0.792, high: 0.924, n: 100 }, formatPercent)).toBe(
      "87.0% (79.2% to 92.4%, n = 100)",
    );
  });

  it("missing interval or mean: says why", () => {
    expect(formatEstimate({ mean: 0.5, low: null, high: null, n: 3 })).toBe(
      "0.5 (n = 3, too few for an interval)",
    );
    expect(formatEstimate({ mean: null, low: null, high: null, n: 0 })).toBe("not known (n = 0)");
  });
});

describe("number formats", () => {
  it("formatPlain: three digits", () => {
    expect([0, 0.12345, 1234.5, -0.5].map(formatPlain)).toEqual(["0", "0.123", "1230", "−0.5"]);
    expect(formatPlain(0.00012)).toBe("1.2e−4");
    expect(formatPlain(-0.00012)).toBe("−1.2e−4");
  });

  it("formatSigned: has a sign", () => {
    expect([0.25, -0.25, 0].map(formatSigned)).toEqual(["+0.25", "−0.25", "0"]);
  });

  it("formatPoints: percentage points with a sign", () => {
    expect([0.0473, -0.0473, 0].map(formatPoints)).toEqual(["+4.7%", "−4.7%", "0.0%"]);
  });

  it("formatCount: singular and plural", () => {
    expect(formatCount(1, "row")).toBe("1 row");
    expect(formatCount(12_345, "row")).toBe("12\u202f345 rows");
  });
});

describe("intervals", () => {
  it("excludesZero: true only where the whole interval is on one side", () => {
    expect(excludesZero({ mean: 1, low: 0.1, high: 2, n: 9 })).toBe(true);
    expect(excludesZero({ mean: -1, low: -2, high: -0.1, n: 9 })).toBe(true);
    expect(excludesZero({ mean: 1, low: -0.1, high: 2, n: 9 })).toBe(false);
    expect(excludesZero({ mean: 1, low: null, high: null, n: 2 })).toBe(false);
  });

  it("formatInterval without an interval: a dash", () => {
    expect(formatInterval({ mean: 1, low: null, high: null, n: 2 })).toBe("–");
    expect(formatInterval({ mean: 1, low: -1, high: 2, n: 20 })).toBe("−1 to 2");
  });
});
