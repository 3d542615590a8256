import { expect, test } from "vitest";

import type { Mark } from "../render/scene";
import { centre, nextMark } from "./roving";

/** A grid of 3 x 3 cells of 10 pixels, row by row. */
const GRID: readonly Mark[] = Array.from({ length: 9 }, (_, index) => ({
  kind: "rect",
  x: 10 * (index % 3),
  y: 10 * Math.floor(index / 3),
  width: 10,
  height: 10,
}));

test("arrows go on in reading order, and up and down to what is nearest", () => {
  expect(nextMark(GRID, null, "ArrowRight")).toBe(0);
  expect(nextMark(GRID, 2, "ArrowRight")).toBe(3);
  expect(nextMark(GRID, 3, "ArrowLeft")).toBe(2);
  expect(nextMark(GRID, 4, "ArrowUp")).toBe(1);
  expect(nextMark(GRID, 4, "ArrowDown")).toBe(7);
  expect(nextMark(GRID, 4, "Home")).toBe(0);
  expect(nextMark(GRID, 4, "End")).toBe(8);
});

test("the ends are ends", () => {
  expect(nextMark(GRID, 0, "ArrowLeft")).toBe(0);
  expect(nextMark(GRID, 8, "ArrowRight")).toBe(8);
  expect(nextMark(GRID, 8, "ArrowDown")).toBe(8);
  expect(nextMark([], null, "ArrowRight")).toBeNull();
  expect(nextMark(GRID, 4, "x")).toBeNull();
});

test("a path stands in the middle of its points", () => {
  const path: Mark = { kind: "path", commands: [["M", 0, 0], ["C", 9, 9, 9, 9, 10, 20], ["Z"]] }; // prettier-ignore
  expect(centre(path)).toEqual([5, 10]);
});
