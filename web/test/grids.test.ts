import { describe, expect, it } from "vitest";
import { bars } from "../src/render/bars";
import { curve } from "../src/render/curve";
import { headmap, thumbnails } from "../src/render/headmap";
import { hitIndex } from "../src/render/hits";
import { matrix } from "../src/render/matrix";
import { type Scene, titleOf } from "../src/render/scene";
import { svg } from "../src/render/svg";
import { DARK, LIGHT } from "../src/render/theme";
import type { Heads } from "../src/api/types";
import { fixture } from "./flows";

const FLOW = fixture("attention");
const HEADS = fixture<Heads>("heads");
const MAP = fixture<number[][]>("map").flat();
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
  headmap: headmap(HEADS, { ...wide, selected: [3, 1] }),
  thumbnails: thumbnails({ layers: 2, heads: 3, size: 6, pixels: small(2, 3, 6) }, wide),
  matrix: matrix({ values: MAP, tokens: FLOW.tokens, title: "layer 3, head 1" }, wide),
  "matrix-difference": matrix(
    { values: MAP, other: [...MAP].reverse(), tokens: FLOW.tokens, title: "layer 3, head 1" },
    wide,
  ),
  bars: bars(BARS, { ...wide, title: "words", signed: true }),
  curve: curve(CURVE, {
    ...wide,
    title: "deletion",
    across: "share of the words removed",
    up: "probability of the target",
  }),
};

it.each(Object.entries(SCENES))("%s looks as it did", async (name, scene) => {
  const file = svg(scene, LIGHT, "whence");
  expect(file).not.toMatch(/NaN|Infinity|undefined/);
  await expect(file).toMatchFileSnapshot(`__snapshots__/${name}.svg`);
});

describe("headmap", () => {
  it("has a cell for each head, coloured by the root of its place in the range", () => {
    const scene = headmap({ title: "x", values: [[0, 0.25], [1, null]], low: 0, high: 1, signed: false }, wide); // prettier-ignore
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

  it("is symmetric around zero when values have a sign", () => {
    const scene = headmap({ title: "x", values: [[-0.1, 0.2]], low: -0.1, high: 0.2, signed: true }, wide);
    const fills = scene.marks.flatMap((mark) => (mark.kind === "rect" && mark.hit ? [mark.fill] : []));
    expect(fills).toEqual([LIGHT.signed(-0.5), LIGHT.signed(1)]);
  });

  it("puts the deepest layer on top", () => {
    const scene = headmap(HEADS, wide);
    const y = (layer: number) =>
      scene.marks.find(
        (mark) => mark.hit?.kind === "head" && mark.hit.layer === layer && mark.kind === "rect",
      );
    expect((y(3) as { y: number }).y).toBeLessThan((y(0) as { y: number }).y);
  });

  it("does not fail on equal values", () => {
    for (const signed of [true, false]) {
      const scene = headmap({ title: "x", values: [[0, 0]], low: 0, high: 0, signed }, wide);
      expect(svg(scene, LIGHT, "")).not.toMatch(/NaN|Infinity/);
    }
  });
});

describe("matrix", () => {
  it("is cells up to 20 000 of them, and a picture beyond", () => {
    const tokens = (n: number) =>
      Array.from({ length: n }, (_, i) => ({ ...FLOW.tokens[1], text: `t${i}` }) as (typeof FLOW.tokens)[0]);
    const of = (n: number) =>
      matrix(
        { values: new Float32Array(n * n).fill(1 / n), tokens: tokens(n), title: "x" },
        { width: 900, theme: DARK },
      );
    expect(of(141).marks.some((mark) => mark.kind === "image")).toBe(false); // 19 881
    expect(of(142).marks.some((mark) => mark.kind === "image")).toBe(true); // 20 164
  });

  it("finds the cell under the pointer in a picture, too", () => {
    const n = 150;
    const tokens = Array.from(
      { length: n },
      (_, i) => ({ ...FLOW.tokens[1], text: `t${i}` }) as (typeof FLOW.tokens)[0],
    );
    const values = new Float32Array(n * n);
    values[7 * n + 9] = 0.5;
    const scene = matrix({ values, tokens, title: "x" }, { width: 900, theme: LIGHT });
    const picture = scene.marks.find((mark) => mark.kind === "image");
    if (picture?.kind !== "image") throw new Error("no picture");
    const found = hitIndex(scene).at(
      picture.x + ((9 + 0.5) * picture.width) / n,
      picture.y + ((7 + 0.5) * picture.height) / n,
    );
    expect(found?.hit).toEqual({ kind: "cell", row: 7, column: 9 });
    expect(found?.title).toContain("0.5");
    expect(scene.table.rows[0]).toEqual([7, "t7", 9, "t9", 0.5]);
  });

  it("spreads a row over as many tokens as two to its entropy", () => {
    const uniform = matrix({ values: [0.5, 0.5, 1, 0], tokens: FLOW.tokens.slice(0, 2), title: "x" }, wide);
    const spread = uniform.marks
      .flatMap((mark) => titleOf(mark) ?? [])
      .filter((title) => title.startsWith("tokens it spreads"));
    expect(spread.map((title) => title.split(": ")[1])).toEqual(["2", "1"]);
  });

  it("is empty of change where nothing changed", () => {
    const scene = matrix({ values: MAP, other: MAP, tokens: FLOW.tokens, title: "x" }, wide);
    const fills = new Set(
      scene.marks.flatMap((mark) => (mark.kind === "rect" && mark.hit ? [mark.fill] : [])),
    );
    expect([...fills]).toEqual([LIGHT.paper]);
  });
});

it("draws bars from zero, in proportion", () => {
  const scene = bars([{ label: "a", value: 0.5 }, { label: "b", value: 0.25 }, { label: "c", value: 0 }], { ...wide, title: "x" }); // prettier-ignore
  const widths = scene.marks.flatMap((mark) => (mark.kind === "rect" ? [mark.width] : []));
  expect((widths[0] ?? 0) / (widths[1] ?? 1)).toBeCloseTo(2, 9);
  expect(widths[2]).toBe(1);
});

it("gives every point of a curve to the keyboard", () => {
  expect(hitIndex(SCENES.curve as Scene).marks.map((mark) => mark.hit)).toEqual(
    at.map((_, row) => ({ kind: "cell", row, column: 0 })),
  );
});
