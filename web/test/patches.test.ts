// @vitest-environment jsdom
import { describe, expect, it } from "vitest";

import { patchesOf } from "../src/explain/attended";
import { csv } from "../src/render/csv";
import { hitIndex } from "../src/render/hits";
import { type Pixels, hue, overlaid } from "../src/render/overlay";
import { type PatchMap, patches, strongest } from "../src/render/patches";
import { titleOf } from "../src/render/scene";
import { svg } from "../src/render/svg";
import { DARK, LIGHT } from "../src/render/theme";
import { scaleOf } from "../src/render/tint";

/** A grey picture of 4 x 4 pixels. */
const GREY: Pixels = {
  width: 4,
  height: 4,
  data: Uint8ClampedArray.from({ length: 64 }, (_, place) => (place % 4 === 3 ? 255 : 100)),
};
const map = (method: string, target: string, scores: readonly number[], signed = true): PatchMap => ({
  method,
  target,
  scores,
  scale: scaleOf({ word_scores: scores, signed }),
});
const A = map("attcat", "cat", [2, 0, 0, -1]);
const B = map("rollout", "cat", [0.1, 0.2, 0.3, 0.4], false);
const OPTIONS = { width: 900, theme: LIGHT, strength: 1, smooth: false };
const scene = (maps = [A, B], rest = {}) =>
  patches({ picture: GREY, grid: [2, 2], maps, name: "drawing" }, { ...OPTIONS, ...rest });
const pixel = (pixels: Uint8ClampedArray, x: number, y: number): number[] => [
  ...pixels.slice((y * 4 + x) * 4, (y * 4 + x) * 4 + 4),
];

describe("an overlay", () => {
  const over = { grid: [2, 2], scores: A.scores, scale: A.scale, strength: 1, smooth: false } as const;

  it("is the picture itself where the colours have no strength", () => {
    expect(overlaid(GREY, { ...over, strength: 0 })).toEqual(GREY.data);
  });

  it("fades the picture, and colours by sign and size", () => {
    const pixels = overlaid(GREY, over);
    // Grey fades to 16 + 0.42 * 100 = 58; the strongest takes 0.9 of its colour: 58 + 0.9 * (60 - 58) = 59.8, ...
    expect(pixel(pixels, 0, 0)).toEqual([60, 150, 235, 255]);
    expect(pixel(pixels, 3, 0)).toEqual([58, 58, 58, 255]);
    // Half of the strongest, against: 0.9 * 0.5 ** 0.75 = 0.535 of the way to (255, 130, 40).
    expect(pixel(pixels, 3, 3)).toEqual([163, 97, 48, 255]);
  });

  it("has no colour but the map's, however strong that is", () => {
    const data = Uint8ClampedArray.from({ length: 64 }, (_, place) => [250, 120, 10, 255][place % 4] ?? 0);
    for (const strength of [0.5, 0.8, 1]) {
      const [red, green, blue] = pixel(overlaid({ ...GREY, data }, { ...over, strength }), 3, 0); // a score of 0
      expect([green, blue]).toEqual([red, red]);
    }
  });

  it("shows nothing where all scores are the same to rounding", () => {
    const { scores, scale } = map("rollout", "cat", [0.1, 0.1 + 1e-15, 0.1, 0.1], false);
    const pixels = overlaid(GREY, { ...over, scores, scale });
    expect(new Set([0, 2].map((x) => String(pixel(pixels, x, 0)))).size).toBe(1);
  });

  it("is level within a patch, and smooth between the middles of patches where that is wished", () => {
    const blocks = overlaid(GREY, over);
    expect(pixel(blocks, 0, 0)).toEqual(pixel(blocks, 1, 1));
    const smooth = overlaid(GREY, { ...over, smooth: true });
    expect(pixel(smooth, 0, 0)).toEqual(pixel(blocks, 0, 0)); // a corner is nearest to its own patch
    expect(pixel(smooth, 1, 0)).not.toEqual(pixel(smooth, 0, 0));
  });

  it("has a ramp of one direction for scores without a sign", () => {
    expect(hue(0, false)).toEqual([52, 60, 140]);
    expect(hue(1, false)).toEqual([255, 236, 80]);
    expect(hue(0.25, false)).toEqual([30, 130, 150]);
  });
});

describe("patches", () => {
  it("have the picture once, and a map for each method", () => {
    const images = scene().marks.filter((mark) => mark.kind === "image");
    expect(images).toHaveLength(3);
    expect(images.every((image) => image.columns === 4 && image.rows === 4)).toBe(true);
    expect(images[0]?.pixels).toBe(GREY.data);
  });

  it("say row, column and score of every patch, to the pointer and the keyboard", () => {
    const index = hitIndex(scene());
    const said = index.marks.map((mark) => titleOf(mark));
    expect(said).toHaveLength(8);
    expect(said[0]).toBe("attcat, row 1, column 1: 2");
    expect(said[3]).toBe("attcat, row 2, column 2: -1");
    const first = index.marks[3];
    if (first?.kind !== "rect") throw new Error("no rectangle");
    expect(titleOf(index.at(first.x + 5, first.y + 5) ?? first)).toBe("attcat, row 2, column 2: -1");
  });

  it("stand in one row for each target", () => {
    const dog = map("attcat", "dog", [0, 0, 1, 0]);
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

  it("have a head's attention beside them, which is about no target", () => {
    const dog = map("attcat", "dog", [0, 0, 1, 0]);
    const head: PatchMap = { ...B, method: "head 0.1", target: null, about: "attention of the class token" };
    const found = scene([A, dog, head]);
    const places = found.marks.flatMap((mark) => (mark.kind === "image" ? [[mark.x, mark.y] as const] : []));
    const [, [x1, y1] = [0, 0], [x2, y2] = [0, 0], [x3, y3] = [0, 0]] = places;
    expect([x2, y3]).toEqual([x1, y1]); // the dog under the cat, the head beside the cat
    expect(y2).toBeGreaterThan(y1);
    expect(x3).toBeGreaterThan(x1);
    expect(found.table.columns[4]).toBe("head 0.1 attention of the class token");
    const words = found.marks.map((mark) => (mark.kind === "text" ? mark.text : ""));
    expect(words.filter((said) => said.startsWith("no sign"))).toEqual([]);
    expect(words).toContain("0.1 to 0.4");
  });

  it("are a table of all scores, as they are", () => {
    expect(scene().table.columns).toEqual(["row", "column", "attcat", "rollout"]);
    expect(scene().table.rows[3]).toEqual([2, 2, -1, 0.4]);
    expect(csv(scene().table, "x").split("\r\n")[2]).toBe("1,1,2,0.1");
  });

  it("can be written as SVG in both themes, whatever a method or a file is called", () => {
    const evil = map("<b>&", '"</svg><script>', [1, 2, 3, 4]);
    for (const theme of [LIGHT, DARK]) {
      const file = svg(scene([evil], { theme }), theme, "caption");
      const parsed = new DOMParser().parseFromString(file, "image/svg+xml");
      expect(parsed.querySelector("parsererror")).toBeNull();
      expect(parsed.querySelector("script")).toBeNull();
      expect(parsed.querySelectorAll("image")).toHaveLength(2);
    }
  });

  it("can be told in words", () => {
    expect(strongest(A, 2, 2)).toBe(
      "attcat: the strongest patches are row 1, column 1 (2); row 2, column 2 (-1).",
    );
  });
});

describe("a head's attention", () => {
  it("is that of the class token where there is one, else the mean", () => {
    // Three tokens, the first of which stands before two patches.
    const data = Float32Array.of(0.2, 0.5, 0.3, 0, 1, 0, 0, 0, 1);
    const [a = 0, b = 0] = patchesOf({ shape: [3, 3], data }, 2).scores;
    expect([a, b]).toEqual([0.5, Math.fround(0.3)]);
    const mean = patchesOf({ shape: [2, 2], data: Float32Array.of(1, 0, 0.5, 0.5) }, 2);
    expect(mean.scores).toEqual([0.75, 0.25]);
  });
});
