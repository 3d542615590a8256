// @vitest-environment jsdom
/** Tests of score maps over images: overlay pixels, picture with patches and table, patch scores of a head. */

import { describe, expect, it } from "vitest";

import { readPatchScores } from "../src/explain/HeadAttention";
import { formatCsv } from "../src/render/csv";
import { createHitIndex } from "../src/render/hitIndex";
import { type Pixels, getHue, paintOverlay } from "../src/render/overlay";
import { type PatchMap, drawPatches, describeStrongest } from "../src/render/patches";
import { getTitle } from "../src/render/scene";
import { renderSvg } from "../src/render/svg";
import { DARK, LIGHT } from "../src/render/theme";
import { buildScale } from "../src/render/tint";

/** A grey picture of 4 x 4 pixels. */
const GREY: Pixels = {
  width: 4,
  height: 4,
  data: Uint8ClampedArray.from({ length: 64 }, (_, place) => (place % 4 === 3 ? 255 : 100)),
};
const makeMap = (method: string, target: string, scores: readonly number[], signed = true): PatchMap => ({
  method,
  target,
  scores,
  scale: buildScale({ word_scores: scores, signed }),
});
const A = makeMap("attcat", "cat", [2, 0, 0, -1]);
const B = makeMap("rollout", "cat", [0.1, 0.2, 0.3, 0.4], false);
const OPTIONS = { width: 900, theme: LIGHT, strength: 1, smooth: false };
const scene = (maps = [A, B], rest = {}) =>
  drawPatches({ picture: GREY, grid: [2, 2], maps, name: "drawing" }, { ...OPTIONS, ...rest });
const pixel = (pixels: Uint8ClampedArray, x: number, y: number): number[] => [
  ...pixels.slice((y * 4 + x) * 4, (y * 4 + x) * 4 + 4),
];

describe("paintOverlay", () => {
  const over = { grid: [2, 2], scores: A.scores, scale: A.scale, strength: 1, smooth: false } as const;

  it("strength 0: equals the image", () => {
    expect(paintOverlay(GREY, { ...over, strength: 0 })).toEqual(GREY.data);
  });

  it("fades the image, and colours by sign and magnitude", () => {
    const pixels = paintOverlay(GREY, over);
    // Grey fades to 16 + 0.42 * 100 = 58; the strongest takes 0.9 of its colour: 58 + 0.9 * (60 - 58) = 59.8, ...
    expect(pixel(pixels, 0, 0)).toEqual([60, 150, 235, 255]);
    expect(pixel(pixels, 3, 0)).toEqual([58, 58, 58, 255]);
    // Half of the strongest, against: 0.9 * 0.5 ** 0.75 = 0.535 of the way to (255, 130, 40).
    expect(pixel(pixels, 3, 3)).toEqual([163, 97, 48, 255]);
  });

  it("any strength: no colours but the map's", () => {
    const data = Uint8ClampedArray.from({ length: 64 }, (_, place) => [250, 120, 10, 255][place % 4] ?? 0);
    for (const strength of [0.5, 0.8, 1]) {
      const [red, green, blue] = pixel(paintOverlay({ ...GREY, data }, { ...over, strength }), 3, 0); // a score of 0
      expect([green, blue]).toEqual([red, red]);
    }
  });

  it("scores equal up to rounding: no colour", () => {
    const { scores, scale } = makeMap("rollout", "cat", [0.1, 0.1 + 1e-15, 0.1, 0.1], false);
    const pixels = paintOverlay(GREY, { ...over, scores, scale });
    expect(new Set([0, 2].map((x) => String(pixel(pixels, x, 0)))).size).toBe(1);
  });

  it("constant within a patch; smooth: interpolated between patch centres", () => {
    const blocks = paintOverlay(GREY, over);
    expect(pixel(blocks, 0, 0)).toEqual(pixel(blocks, 1, 1));
    const smooth = paintOverlay(GREY, { ...over, smooth: true });
    expect(pixel(smooth, 0, 0)).toEqual(pixel(blocks, 0, 0)); // a corner is nearest to its own patch
    expect(pixel(smooth, 1, 0)).not.toEqual(pixel(smooth, 0, 0));
  });

  it("unsigned scores: one-sided ramp", () => {
    expect(getHue(0, false)).toEqual([52, 60, 140]);
    expect(getHue(1, false)).toEqual([255, 236, 80]);
    expect(getHue(0.25, false)).toEqual([30, 130, 150]);
  });
});

describe("drawPatches", () => {
  it("draws the image once, and a map for each method", () => {
    const images = scene().marks.filter((mark) => mark.kind === "image");
    expect(images).toHaveLength(3);
    expect(images.every((image) => image.columns === 4 && image.rows === 4)).toBe(true);
    expect(images[0]?.pixels).toBe(GREY.data);
  });

  it("every patch: row, column and score for pointer and keyboard", () => {
    const index = createHitIndex(scene());
    const texts = index.marks.map((mark) => getTitle(mark));
    expect(texts).toHaveLength(8);
    expect(texts[0]).toBe("attcat, row 1, column 1: 2");
    expect(texts[3]).toBe("attcat, row 2, column 2: -1");
    const first = index.marks[3];
    if (first?.kind !== "rect") throw new Error("no rectangle");
    expect(getTitle(index.at(first.x + 5, first.y + 5) ?? first)).toBe("attcat, row 2, column 2: -1");
  });

  it("several targets: one row each", () => {
    const dog = makeMap("attcat", "dog", [0, 0, 1, 0]);
    const two = scene([A, B, dog, { ...B, target: "dog" }]);
    const tops = two.marks.flatMap((mark) => (mark.kind === "image" ? [mark.y] : []));
    expect(new Set(tops.slice(1)).size).toBe(2);
    expect(two.table.columns).toEqual([
      "row",
      "column",
      "attcat for cat",
      "rollout for cat",
      "attcat for dog",
      "rollout for dog",
    ]);
  });

  it("attention of a head: beside the maps, without a target", () => {
    const dog = makeMap("attcat", "dog", [0, 0, 1, 0]);
    const head: PatchMap = { ...B, method: "head 0.1", target: null, about: "attention of the class token" };
    const result = scene([A, dog, head]);
    const places = result.marks.flatMap((mark) => (mark.kind === "image" ? [[mark.x, mark.y] as const] : []));
    const [, [x1, y1] = [0, 0], [x2, y2] = [0, 0], [x3, y3] = [0, 0]] = places;
    expect([x2, y3]).toEqual([x1, y1]); // the dog under the cat, the head beside the cat
    expect(y2).toBeGreaterThan(y1);
    expect(x3).toBeGreaterThan(x1);
    expect(result.table.columns[4]).toBe("head 0.1 attention of the class token");
    const words = result.marks.map((mark) => (mark.kind === "text" ? mark.text : ""));
    expect(words.filter((texts) => texts.startsWith("no sign"))).toEqual([]);
    expect(words).toContain("0.1 to 0.4");
  });

  it("table: has all scores", () => {
    expect(scene().table.columns).toEqual(["row", "column", "attcat", "rollout"]);
    expect(scene().table.rows[3]).toEqual([2, 2, -1, 0.4]);
    expect(formatCsv(scene().table, "x").split("\r\n")[2]).toBe("1,1,2,0.1");
  });

  it("renders as SVG in both themes, with any method or file name", () => {
    const evil = makeMap("<b>&", '"</svg><script>', [1, 2, 3, 4]);
    for (const theme of [LIGHT, DARK]) {
      const file = renderSvg(scene([evil], { theme }), theme, "caption");
      const parsed = new DOMParser().parseFromString(file, "image/svg+xml");
      expect(parsed.querySelector("parsererror")).toBeNull();
      expect(parsed.querySelector("script")).toBeNull();
      expect(parsed.querySelectorAll("image")).toHaveLength(2);
    }
  });

  it("describeStrongest: names the strongest patches", () => {
    expect(describeStrongest(A, 2, 2)).toBe(
      "attcat: the strongest patches are row 1, column 1 (2); row 2, column 2 (-1).",
    );
  });
});

describe("readPatchScores", () => {
  it("class token: its row; no class token: the mean of all rows", () => {
    // Three tokens: a class token before two patches.
    const data = Float32Array.of(0.2, 0.5, 0.3, 0, 1, 0, 0, 0, 1);
    const [a = 0, b = 0] = readPatchScores({ shape: [3, 3], data }, 2).scores;
    expect([a, b]).toEqual([0.5, Math.fround(0.3)]);
    const mean = readPatchScores({ shape: [2, 2], data: Float32Array.of(1, 0, 0.5, 0.5) }, 2);
    expect(mean.scores).toEqual([0.75, 0.25]);
  });
});
