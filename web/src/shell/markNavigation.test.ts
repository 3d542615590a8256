/** Tests of arrow-key navigation between marks: reading order, nearest above or below, ends, centres. */

import { expect, test } from "vitest";

import type { Mark } from "../render/scene";
import { findCentre, findNextMark } from "./markNavigation";

/** A grid of 3 x 3 cells of 10 pixels, row by row. */
const GRID: readonly Mark[] = Array.from({ length: 9 }, (_, index) => ({
  kind: "rect",
  x: 10 * (index % 3),
  y: 10 * Math.floor(index / 3),
  width: 10,
  height: 10,
}));

test("left and right follow reading order, up and down the nearest mark", () => {
  expect(findNextMark(GRID, null, "ArrowRight")).toBe(0);
  expect(findNextMark(GRID, 2, "ArrowRight")).toBe(3);
  expect(findNextMark(GRID, 3, "ArrowLeft")).toBe(2);
  expect(findNextMark(GRID, 4, "ArrowUp")).toBe(1);
  expect(findNextMark(GRID, 4, "ArrowDown")).toBe(7);
  expect(findNextMark(GRID, 4, "Home")).toBe(0);
  expect(findNextMark(GRID, 4, "End")).toBe(8);
});

test("first and last mark: no wrap-around", () => {
  expect(findNextMark(GRID, 0, "ArrowLeft")).toBe(0);
  expect(findNextMark(GRID, 8, "ArrowRight")).toBe(8);
  expect(findNextMark(GRID, 8, "ArrowDown")).toBe(8);
  expect(findNextMark([], null, "ArrowRight")).toBeNull();
  expect(findNextMark(GRID, 4, "x")).toBeNull();
});

test("findCentre, path: the middle of its points", () => {
  const path: Mark = { kind: "path", commands: [["M", 0, 0], ["C", 9, 9, 9, 9, 10, 20], ["Z"]] }; // prettier-ignore
  expect(findCentre(path)).toEqual([5, 10]);
});
