/** Image under one score map or several: methods side by side, a row for each target, every patch numbered. */

import { line, text } from "./marks";
import { type Pixels, getHue, paintOverlay } from "./overlay";
import type { Mark, Scene, TableData, Theme } from "./scene";
import { formatSignificant, fitWidth, measureWidth } from "./text";
import { type Scale, computeShade } from "./tint";

/** Scores of one method and target over the patches. */
export interface PatchMap {
  readonly method: string;
  readonly target: string | null; // null: no target, such as a head's attention
  readonly about?: string; // description of a map without a target
  readonly scores: readonly number[]; // row by row
  readonly scale: Scale;
}

/** Image, grid of patches, and the maps over it. */
export interface PatchPicture {
  readonly picture: Pixels;
  readonly grid: readonly [down: number, across: number];
  readonly maps: readonly PatchMap[]; // row by row: all methods of a target together
  readonly name: string;
}

/** Options of a picture with score maps. */
export interface PatchOptions {
  readonly width: number;
  readonly theme: Theme;
  readonly strength: number;
  readonly smooth: boolean;
}

const GAP = 14;
const HEAD = 36; // method and target above a map
const FOOT = 54; // its scale below
const MOST = 336; // pixels per side
const LEAST = 140;

/** Draw the image once for each map. */
export function drawPatches({ picture, grid, maps, name }: PatchPicture, options: PatchOptions): Scene {
  const { width, theme } = options;
  const methods = [...new Set(maps.map(({ method }) => method))];
  const targets = [...new Set(maps.flatMap(({ target }) => (target === null ? [] : [target])))];
  const across = Math.max(1, methods.length);
  const side = Math.max(LEAST, Math.min(MOST, (width - GAP) / (across + 1) - GAP));
  const tall = (side * picture.height) / picture.width;
  const marks: Mark[] = [
    text(GAP, HEAD - 10, fitWidth(name, 12, side), theme, { size: 12, bold: true, fill: theme.ink }),
    buildImage(picture.data, picture, GAP, HEAD, side, tall),
  ];
  maps.forEach((map, number) => {
    const x = GAP + (1 + methods.indexOf(map.method)) * (side + GAP);
    const row = map.target === null ? 0 : targets.indexOf(map.target);
    const y = HEAD + row * (tall + HEAD + FOOT);
    marks.push(...drawMap(map, { picture, grid }, { x, y, side, tall, number }, options));
  });
  const rows = Math.max(1, targets.length);
  return {
    width: Math.max(width, GAP + (across + 1) * (side + GAP)),
    height: rows * (tall + HEAD + FOOT) + 4,
    marks,
    label: `${name}: ${grid[0]} by ${grid[1]} patches, under ${maps.map(describeMap).join("; ")}.`,
    get table() {
      return buildTable(grid, maps);
    },
    edges: [],
  };
}

interface MapPosition {
  readonly x: number;
  readonly y: number;
  readonly side: number;
  readonly tall: number;
  readonly number: number;
}

function drawMap(
  map: PatchMap,
  { picture, grid }: Pick<PatchPicture, "picture" | "grid">,
  { x, y, side, tall, number }: MapPosition,
  { theme, strength, smooth }: PatchOptions,
): Mark[] {
  const { scores, scale, method } = map;
  const [down, across] = grid;
  const [wide, high] = [side / across, tall / down];
  const pixels = paintOverlay(picture, { grid, scores, scale, strength, smooth });
  const marks: Mark[] = [
    text(x, y - 23, fitWidth(method, 12, side), theme, { size: 12, bold: true, fill: theme.ink }),
    text(x, y - 8, fitWidth(describeTarget(map), 11, side), theme),
    buildImage(pixels, picture, x, y, side, tall),
  ];
  scores.forEach((score, patch) => {
    const [row, column] = [Math.floor(patch / across), patch % across];
    marks.push({
      kind: "rect",
      x: x + column * wide,
      y: y + row * high,
      width: wide,
      height: high,
      hit: { kind: "cell", row: number * down + row, column },
      title: () => `${method}, row ${row + 1}, column ${column + 1}: ${formatSignificant(score)}`,
    });
  });
  marks.push(...drawLegend(map, x, y + tall + 8, side, theme));
  return marks;
}

function buildImage(
  pixels: Uint8ClampedArray,
  { width: columns, height: rows }: Pixels,
  x: number,
  y: number,
  width: number,
  height: number,
): Mark {
  return { kind: "image", x, y, width, height, columns, rows, pixels, smooth: true };
}

const STEPS = 24;

function drawLegend({ scale, target }: PatchMap, x: number, y: number, side: number, theme: Theme): Mark[] {
  const range = `${formatSignificant(scale.low)} to ${formatSignificant(scale.high)}`;
  const ramp = Math.max(24, Math.min(120, side - measureWidth(range, 10) - 6));
  const marks: Mark[] = [];
  for (let step = 0; step < STEPS; step++) {
    const share = (step + 0.5) / STEPS;
    const shade = scale.signed ? share * 2 - 1 : share;
    const part = 0.9 * Math.abs(shade) ** 0.75;
    const fill = `#${getHue(shade, scale.signed)
      .map((value) => Math.round(60 + part * (value - 60)))
      .map((value) => value.toString(16).padStart(2, "0"))
      .join("")}`;
    marks.push({ kind: "rect", x: x + (step * ramp) / STEPS, y, width: ramp / STEPS + 0.3, height: 8, fill });
  }
  if (scale.signed) marks.push(line(x + ramp / 2, y - 1, x + ramp / 2, y + 9, theme.dim, 1));
  marks.push(text(x + ramp + 6, y + 8, range, theme, { size: 10 }));
  if (target !== null) {
    const words = scale.signed ? "blue: for it; orange: against" : "no sign: for it or against";
    marks.push(text(x, y + 22, fitWidth(words, 10, side), theme, { size: 10 }));
  }
  if (scale.legend)
    marks.push(text(x, y + 36, fitWidth(scale.legend, 10, side), theme, { size: 10, title: scale.legend }));
  return marks;
}

/** Describe the target of a map. */
function describeTarget({ target, about = "" }: PatchMap): string {
  return target === null ? about : `for ${target}`;
}

/** Describe a map by method and target. */
export function describeMap(map: PatchMap): string {
  return `${map.method} ${describeTarget(map)}`.trimEnd();
}

function buildTable([, across]: readonly [number, number], maps: readonly PatchMap[]): TableData {
  const isOne = new Set(maps.flatMap(({ target }) => target ?? [])).size <= 1;
  const patchesOf = maps[0]?.scores ?? [];
  return {
    columns: [
      "row",
      "column",
      ...maps.map((map) => (isOne && map.target !== null ? map.method : describeMap(map))),
    ],
    rows: patchesOf.map((_, patch) => [
      Math.floor(patch / across) + 1,
      (patch % across) + 1,
      ...maps.map(({ scores }) => scores[patch] ?? ""),
    ]),
  };
}

/** Describe the strongest patches, for screen readers. */
export function describeStrongest({ method, scores, scale }: PatchMap, across: number, most = 3): string {
  const order = scores
    .map((score, patch) => ({ score, patch, size: Math.abs(computeShade(score, scale)) }))
    .sort((a, b) => b.size - a.size || a.patch - b.patch)
    .slice(0, most);
  const named = order.map(
    ({ score, patch }) =>
      `row ${Math.floor(patch / across) + 1}, column ${(patch % across) + 1} (${formatSignificant(score)})`,
  );
  return `${method}: the strongest patches are ${named.join("; ")}.`;
}
