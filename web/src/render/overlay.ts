/** Score map over an image: the image in faded grey, scores in colour, as in the Python library's pictures. */

import type { Scale } from "./tint";
import { computeShade } from "./tint";

/** Image as RGBA bytes. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8ClampedArray; // RGBA, row by row
}

/** Scores of a grid of patches, and how to draw them. */
export interface Overlay {
  readonly grid: readonly [down: number, across: number];
  readonly scores: readonly number[]; // row by row
  readonly scale: Scale;
  readonly strength: number; // 0: image only; 1: full colours
  readonly smooth: boolean; // interpolate between patch centres
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

/** Paint the scores over the image. */
export function paintOverlay(picture: Pixels, overlay: Overlay): Uint8ClampedArray {
  const { width, height, data } = picture;
  const { strength, scale } = overlay;
  const shades = computePixelShades(picture, overlay);
  const out = new Uint8ClampedArray(width * height * 4);
  for (let place = 0; place < width * height; place++) {
    const at = place * 4;
    const [red, green, blue] = [data[at] ?? 0, data[at + 1] ?? 0, data[at + 2] ?? 0];
    const grey = 16 + 0.42 * (0.299 * red + 0.587 * green + 0.114 * blue);
    const shade = shades[place] ?? 0;
    const [a, b, c] = getHue(shade, scale.signed);
    const over = strength * 0.9 * Math.abs(shade) ** 0.75;
    // The image loses its colours before the map's become strong, or they would be mistaken for the map's.
    const faded = Math.min(1, 2 * strength);
    const mix = (own: number, colour: number): number => {
      const ground = own + faded * (grey - own);
      return ground + over * (colour - ground);
    };
    out[at] = mix(red, a);
    out[at + 1] = mix(green, b);
    out[at + 2] = mix(blue, c);
    out[at + 3] = 255;
  }
  return out;
}

/** Return the colour of a shade at full strength. */
export function getHue(shade: number, signed: boolean): Colour {
  if (signed) return shade < 0 ? AGAINST : FOR;
  const at = Math.max(0, Math.min(1, shade)) * (RAMP.length - 1);
  const low = Math.min(Math.floor(at), RAMP.length - 2);
  const [from, to] = [RAMP[low] ?? FOR, RAMP[low + 1] ?? FOR];
  const between = (part: 0 | 1 | 2): number => from[part] + (to[part] - from[part]) * (at - low);
  return [between(0), between(1), between(2)];
}

/** Compute one shade for each pixel. */
function computePixelShades({ width, height }: Pixels, overlay: Overlay): Float64Array {
  const { grid, scores, scale, smooth } = overlay;
  const [down, across] = grid;
  const shades = scores.map((score) => computeShade(score, scale));
  const out = new Float64Array(width * height);
  const rows = interpolateAxis(height, down, smooth);
  const columns = interpolateAxis(width, across, smooth);
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

/** For each pixel along a side, find the two patches it lies between, and its position between them. */
function interpolateAxis(
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
    // Beyond the centre of the outermost patch, its score is constant.
    const middle = Math.max(0, place - 0.5);
    const low = Math.min(patches - 1, Math.floor(middle));
    return [low, Math.min(patches - 1, low + 1), middle - low];
  });
}
