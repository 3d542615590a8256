/** A picture under one map or several: methods side by side, one row for each target, every patch with its number. */

import { line, text } from "./marks";
import { type Pixels, hue, overlaid } from "./overlay";
import type { Mark, Scene, Table, Theme } from "./scene";
import { figure, fit, widthOf } from "./text";
import { type Scale, shadeOf } from "./tint";

export interface PatchMap {
  readonly method: string;
  readonly target: string | null; // null: it is about none, such as where a head looks
  readonly about?: string; // what such a one shows
  readonly scores: readonly number[]; // row by row
  readonly scale: Scale;
}

export interface Patched {
  readonly picture: Pixels;
  readonly grid: readonly [down: number, across: number];
  readonly maps: readonly PatchMap[]; // row after row of the page: all methods of a target together
  readonly name: string;
}

export interface PatchOptions {
  readonly width: number;
  readonly theme: Theme;
  readonly strength: number;
  readonly smooth: boolean;
}

const GAP = 14;
const HEAD = 36; // method and target above a map
const FOOT = 54; // its scale below
const MOST = 336; // pixels of a side
const LEAST = 140;

export function patches({ picture, grid, maps, name }: Patched, options: PatchOptions): Scene {
  const { width, theme } = options;
  const methods = [...new Set(maps.map(({ method }) => method))];
  const targets = [...new Set(maps.flatMap(({ target }) => (target === null ? [] : [target])))];
  const across = Math.max(1, methods.length);
  const side = Math.max(LEAST, Math.min(MOST, (width - GAP) / (across + 1) - GAP));
  const tall = (side * picture.height) / picture.width;
  const marks: Mark[] = [
    text(GAP, HEAD - 10, fit(name, 12, side), theme, { size: 12, bold: true, fill: theme.ink }),
    image(picture.data, picture, GAP, HEAD, side, tall),
  ];
  maps.forEach((map, number) => {
    const x = GAP + (1 + methods.indexOf(map.method)) * (side + GAP);
    const row = map.target === null ? 0 : targets.indexOf(map.target);
    const y = HEAD + row * (tall + HEAD + FOOT);
    marks.push(...oneMap(map, { picture, grid }, { x, y, side, tall, number }, options));
  });
  const rows = Math.max(1, targets.length);
  return {
    width: Math.max(width, GAP + (across + 1) * (side + GAP)),
    height: rows * (tall + HEAD + FOOT) + 4,
    marks,
    label: `${name}: ${grid[0]} by ${grid[1]} patches, under ${maps.map(named).join("; ")}.`,
    get table() {
      return tableOf(grid, maps);
    },
    edges: [],
  };
}

interface Place {
  readonly x: number;
  readonly y: number;
  readonly side: number;
  readonly tall: number;
  readonly number: number;
}

function oneMap(
  map: PatchMap,
  { picture, grid }: Pick<Patched, "picture" | "grid">,
  { x, y, side, tall, number }: Place,
  { theme, strength, smooth }: PatchOptions,
): Mark[] {
  const { scores, scale, method } = map;
  const [down, across] = grid;
  const [wide, high] = [side / across, tall / down];
  const pixels = overlaid(picture, { grid, scores, scale, strength, smooth });
  const marks: Mark[] = [
    text(x, y - 23, fit(method, 12, side), theme, { size: 12, bold: true, fill: theme.ink }),
    text(x, y - 8, fit(aboutOf(map), 11, side), theme),
    image(pixels, picture, x, y, side, tall),
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
      title: () => `${method}, row ${row + 1}, column ${column + 1}: ${figure(score)}`,
    });
  });
  marks.push(...legend(map, x, y + tall + 8, side, theme));
  return marks;
}

function image(
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

function legend({ scale, target }: PatchMap, x: number, y: number, side: number, theme: Theme): Mark[] {
  const range = `${figure(scale.low)} to ${figure(scale.high)}`;
  const ramp = Math.max(24, Math.min(120, side - widthOf(range, 10) - 6));
  const marks: Mark[] = [];
  for (let step = 0; step < STEPS; step++) {
    const share = (step + 0.5) / STEPS;
    const shade = scale.signed ? share * 2 - 1 : share;
    const part = 0.9 * Math.abs(shade) ** 0.75;
    const fill = `#${hue(shade, scale.signed)
      .map((value) => Math.round(60 + part * (value - 60)))
      .map((value) => value.toString(16).padStart(2, "0"))
      .join("")}`;
    marks.push({ kind: "rect", x: x + (step * ramp) / STEPS, y, width: ramp / STEPS + 0.3, height: 8, fill });
  }
  if (scale.signed) marks.push(line(x + ramp / 2, y - 1, x + ramp / 2, y + 9, theme.dim, 1));
  marks.push(text(x + ramp + 6, y + 8, range, theme, { size: 10 }));
  if (target !== null) {
    const words = scale.signed ? "blue: for it; orange: against" : "no sign: for it or against";
    marks.push(text(x, y + 22, fit(words, 10, side), theme, { size: 10 }));
  }
  if (scale.legend)
    marks.push(text(x, y + 36, fit(scale.legend, 10, side), theme, { size: 10, title: scale.legend }));
  return marks;
}

/** What a map is about. */
function aboutOf({ target, about = "" }: PatchMap): string {
  return target === null ? about : `for ${target}`;
}

/** A map in words: its method, and what it is about. */
export function named(map: PatchMap): string {
  return `${map.method} ${aboutOf(map)}`.trimEnd();
}

function tableOf([, across]: readonly [number, number], maps: readonly PatchMap[]): Table {
  const isOne = new Set(maps.flatMap(({ target }) => target ?? [])).size <= 1;
  const patchesOf = maps[0]?.scores ?? [];
  return {
    columns: [
      "row",
      "column",
      ...maps.map((map) => (isOne && map.target !== null ? map.method : named(map))),
    ],
    rows: patchesOf.map((_, patch) => [
      Math.floor(patch / across) + 1,
      (patch % across) + 1,
      ...maps.map(({ scores }) => scores[patch] ?? ""),
    ]),
  };
}

/** The strongest patches in words, for who cannot see them. */
export function strongest({ method, scores, scale }: PatchMap, across: number, most = 3): string {
  const order = scores
    .map((score, patch) => ({ score, patch, size: Math.abs(shadeOf(score, scale)) }))
    .sort((a, b) => b.size - a.size || a.patch - b.patch)
    .slice(0, most);
  const named = order.map(
    ({ score, patch }) =>
      `row ${Math.floor(patch / across) + 1}, column ${(patch % across) + 1} (${figure(score)})`,
  );
  return `${method}: the strongest patches are ${named.join("; ")}.`;
}
