/** Tests of the scenes of head grid, attention matrix, bars and removal curve: colours, cells, snapshots. */

import { describe, expect, it } from "vitest";
import { drawBars } from "../src/render/bars";
import { drawCurve } from "../src/render/curve";
import { drawHeadGrid, drawThumbnails } from "../src/render/headGrid";
import { createHitIndex } from "../src/render/hitIndex";
import { drawMatrix } from "../src/render/matrix";
import { type Scene, getTitle } from "../src/render/scene";
import { renderSvg } from "../src/render/svg";
import { DARK, LIGHT } from "../src/render/theme";
import type { Heads } from "../src/api/types";
import { readFixture } from "./flows";

const FLOW = readFixture("attention");
const HEADS = readFixture<Heads>("heads");
const MAP = readFixture<number[][]>("map").flat();
const wide = { width: 480, theme: LIGHT };

const at = [0, 0.25, 0.5, 0.75, 1];
const CURVE = {
  at,
  values: [0.98, 0.4, 0.2, 0.1, 0.05],
  null_low: [0.9, 0.6, 0.3, 0.1, 0.05],
  null_mean: [0.95, 0.8, 0.5, 0.3, 0.05],
  null_high: [0.98, 0.9, 0.7, 0.4, 0.05],
};
const BARS = [
  { label: "wonderful", value: 0.42, low: 0.3, high: 0.5 },
  { label: "dull", value: -0.21, low: -0.3, high: -0.1 },
  { label: "never", value: null },
];

function small(layers: number, heads: number, size: number): Uint8Array {
  return Uint8Array.from({ length: layers * heads * size * size }, (_, i) => (i * 37) % 256);
}

const SCENES: Readonly<Record<string, Scene>> = {
  headmap: drawHeadGrid(HEADS, { ...wide, selected: [3, 1] }),
  thumbnails: drawThumbnails({ layers: 2, heads: 3, size: 6, pixels: small(2, 3, 6) }, wide),
  matrix: drawMatrix({ values: MAP, tokens: FLOW.tokens, title: "layer 3, head 1" }, wide),
  "matrix-difference": drawMatrix(
    { values: MAP, other: [...MAP].reverse(), tokens: FLOW.tokens, title: "layer 3, head 1" },
    wide,
  ),
  bars: drawBars(BARS, { ...wide, title: "words", signed: true }),
  curve: drawCurve(CURVE, {
    ...wide,
    title: "deletion",
    across: "share of the words removed",
    up: "probability of the target",
  }),
};

it.each(Object.entries(SCENES))("%s: equals its snapshot", async (name, scene) => {
  const file = renderSvg(scene, LIGHT, "whence");
  expect(file).not.toMatch(/NaN|Infinity|undefined/);
  await expect(file).toMatchFileSnapshot(`__snapshots__/${name}.svg`);
});

describe("drawHeadGrid", () => {
  it("has a cell for each head, coloured by the square root of its share of the range", () => {
    const scene = drawHeadGrid({ title: "x", values: [[0, 0.25], [1, null]], low: 0, high: 1, signed: false }, wide); // prettier-ignore
    const fills = new Map(
      scene.marks.flatMap((mark) =>
        mark.kind === "rect" && mark.hit?.kind === "head"
          ? [[`${mark.hit.layer} ${mark.hit.head}`, mark.fill] as const]
          : [],
      ),
    );
    expect(fills.get("0 0")).toBe(LIGHT.sequential(0));
    expect(fills.get("0 1")).toBe(LIGHT.sequential(0.5)); // the root of 0.25
    expect(fills.get("1 0")).toBe(LIGHT.sequential(1));
    expect(fills.get("1 1")).toBeUndefined();
    expect(scene.table.rows).toContainEqual([1, 1, "not known"]);
  });

  it("signed values: symmetric around zero", () => {
    const scene = drawHeadGrid(
      { title: "x", values: [[-0.1, 0.2]], low: -0.1, high: 0.2, signed: true },
      wide,
    );
    const fills = scene.marks.flatMap((mark) => (mark.kind === "rect" && mark.hit ? [mark.fill] : []));
    expect(fills).toEqual([LIGHT.signed(-0.5), LIGHT.signed(1)]);
  });

  it("draws the deepest layer on top", () => {
    const scene = drawHeadGrid(HEADS, wide);
    const y = (layer: number) =>
      scene.marks.find(
        (mark) => mark.hit?.kind === "head" && mark.hit.layer === layer && mark.kind === "rect",
      );
    expect((y(3) as { y: number }).y).toBeLessThan((y(0) as { y: number }).y);
  });

  it("equal values: does not fail", () => {
    for (const signed of [true, false]) {
      const scene = drawHeadGrid({ title: "x", values: [[0, 0]], low: 0, high: 0, signed }, wide);
      expect(renderSvg(scene, LIGHT, "")).not.toMatch(/NaN|Infinity/);
    }
  });
});

describe("drawMatrix", () => {
  it("up to 20 000 cells: marks; beyond: an image", () => {
    const tokens = (n: number) =>
      Array.from({ length: n }, (_, i) => ({ ...FLOW.tokens[1], text: `t${i}` }) as (typeof FLOW.tokens)[0]);
    const of = (n: number) =>
      drawMatrix(
        { values: new Float32Array(n * n).fill(1 / n), tokens: tokens(n), title: "x" },
        { width: 900, theme: DARK },
      );
    expect(of(141).marks.some((mark) => mark.kind === "image")).toBe(false); // 19 881
    expect(of(142).marks.some((mark) => mark.kind === "image")).toBe(true); // 20 164
  });

  it("image: the cell under the pointer is found", () => {
    const n = 150;
    const tokens = Array.from(
      { length: n },
      (_, i) => ({ ...FLOW.tokens[1], text: `t${i}` }) as (typeof FLOW.tokens)[0],
    );
    const values = new Float32Array(n * n);
    values[7 * n + 9] = 0.5;
    const scene = drawMatrix({ values, tokens, title: "x" }, { width: 900, theme: LIGHT });
    const picture = scene.marks.find((mark) => mark.kind === "image");
    if (picture?.kind !== "image") throw new Error("no picture");
    const mark = createHitIndex(scene).at(
      picture.x + ((9 + 0.5) * picture.width) / n,
      picture.y + ((7 + 0.5) * picture.height) / n,
    );
    expect(mark?.hit).toEqual({ kind: "cell", row: 7, column: 9 });
    expect(mark?.title).toContain("0.5");
    expect(scene.table.rows[0]).toEqual([7, "t7", 9, "t9", 0.5]);
  });

  it("row marginal: two to the entropy of the row", () => {
    const uniform = drawMatrix(
      { values: [0.5, 0.5, 1, 0], tokens: FLOW.tokens.slice(0, 2), title: "x" },
      wide,
    );
    const spread = uniform.marks
      .flatMap((mark) => getTitle(mark) ?? [])
      .filter((title) => title.startsWith("tokens it spreads"));
    expect(spread.map((title) => title.split(": ")[1])).toEqual(["2", "1"]);
  });

  it("equal models: no change", () => {
    const scene = drawMatrix({ values: MAP, other: MAP, tokens: FLOW.tokens, title: "x" }, wide);
    const fills = new Set(
      scene.marks.flatMap((mark) => (mark.kind === "rect" && mark.hit ? [mark.fill] : [])),
    );
    expect([...fills]).toEqual([LIGHT.paper]);
  });
});

it("drawBars: lengths from zero, in proportion", () => {
  const scene = drawBars([{ label: "a", value: 0.5 }, { label: "b", value: 0.25 }, { label: "c", value: 0 }], { ...wide, title: "x" }); // prettier-ignore
  const widths = scene.marks.flatMap((mark) => (mark.kind === "rect" ? [mark.width] : []));
  expect((widths[0] ?? 0) / (widths[1] ?? 1)).toBeCloseTo(2, 9);
  expect(widths[2]).toBe(1);
});

it("drawCurve: every point is reachable by keyboard", () => {
  expect(createHitIndex(SCENES.curve as Scene).marks.map((mark) => mark.hit)).toEqual(
    at.map((_, row) => ({ kind: "cell", row, column: 0 })),
  );
});
