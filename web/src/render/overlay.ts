/** A map of scores over a picture: the picture in faded grey, the scores in colour; as the library's own pictures are. */

import type { Scale } from "./tint";
import { shadeOf } from "./tint";

export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8ClampedArray; // RGBA, row by row
}

export interface Overlay {
  readonly grid: readonly [down: number, across: number];
  readonly scores: readonly number[]; // row by row
  readonly scale: Scale;
  readonly strength: number; // 0: the picture as it is; 1: the colours in full
  readonly smooth: boolean; // between the middles of patches, interpolated
}

type Colour = readonly [number, number, number];

const FOR: Colour = [60, 160, 255];
const AGAINST: Colour = [255, 130, 40];
const RAMP: readonly Colour[] = [
  [52, 60, 140],
  [30, 130, 150],
  [60, 190, 120],
  [170, 225, 70],
  [255, 236, 80],
];

export function overlaid(picture: Pixels, overlay: Overlay): Uint8ClampedArray {
  const { width, height, data } = picture;
  const { strength, scale } = overlay;
  const shades = shadesOver(picture, overlay);
  const out = new Uint8ClampedArray(width * height * 4);
  for (let place = 0; place < width * height; place++) {
    const at = place * 4;
    const [red, green, blue] = [data[at] ?? 0, data[at + 1] ?? 0, data[at + 2] ?? 0];
    const grey = 16 + 0.42 * (0.299 * red + 0.587 * green + 0.114 * blue);
    const shade = shades[place] ?? 0;
    const [a, b, c] = hue(shade, scale.signed);
    const over = strength * 0.9 * Math.abs(shade) ** 0.75;
    // The picture's own colours are gone before the map's are strong, or they would be taken for the map's.
    const faded = Math.min(1, 2 * strength);
    const mixed = (own: number, colour: number): number => {
      const ground = own + faded * (grey - own);
      return ground + over * (colour - ground);
    };
    out[at] = mixed(red, a);
    out[at + 1] = mixed(green, b);
    out[at + 2] = mixed(blue, c);
    out[at + 3] = 255;
  }
  return out;
}

/** The colour of a shade at full strength. */
export function hue(shade: number, signed: boolean): Colour {
  if (signed) return shade < 0 ? AGAINST : FOR;
  const at = Math.max(0, Math.min(1, shade)) * (RAMP.length - 1);
  const low = Math.min(Math.floor(at), RAMP.length - 2);
  const [from, to] = [RAMP[low] ?? FOR, RAMP[low + 1] ?? FOR];
  const between = (part: 0 | 1 | 2): number => from[part] + (to[part] - from[part]) * (at - low);
  return [between(0), between(1), between(2)];
}

/** One shade for each pixel. */
function shadesOver({ width, height }: Pixels, overlay: Overlay): Float64Array {
  const { grid, scores, scale, smooth } = overlay;
  const [down, across] = grid;
  const shades = scores.map((score) => shadeOf(score, scale));
  const out = new Float64Array(width * height);
  const rows = axis(height, down, smooth);
  const columns = axis(width, across, smooth);
  for (let y = 0; y < height; y++) {
    const [top, under, yPart] = rows[y] ?? [0, 0, 0];
    for (let x = 0; x < width; x++) {
      const [left, right, xPart] = columns[x] ?? [0, 0, 0];
      const at = (row: number, column: number): number => shades[row * across + column] ?? 0;
      const upper = at(top, left) * (1 - xPart) + at(top, right) * xPart;
      const lower = at(under, left) * (1 - xPart) + at(under, right) * xPart;
      out[y * width + x] = upper * (1 - yPart) + lower * yPart;
    }
  }
  return out;
}

/** For each pixel of a side the two patches it lies between, and how near it is to the second. */
function axis(
  pixels: number,
  patches: number,
  smooth: boolean,
): readonly (readonly [number, number, number])[] {
  return Array.from({ length: pixels }, (_, pixel) => {
    const place = ((pixel + 0.5) * patches) / pixels;
    if (!smooth) {
      const patch = Math.min(patches - 1, Math.floor(place));
      return [patch, patch, 0];
    }
    // Beyond the middle of the outermost patch its own score holds.
    const middle = Math.max(0, place - 0.5);
    const low = Math.min(patches - 1, Math.floor(middle));
    return [low, Math.min(patches - 1, low + 1), middle - low];
  });
}
