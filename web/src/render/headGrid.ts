/** Layers x heads, the deepest layer on top: one number per head, or its attention in small. */

import type { HeadId } from "../state/state";
import { text } from "./marks";
import { coloured, palette } from "./pixels";
import { rooted, strip } from "./scale";
import type { Mark, Scene, Theme } from "./scene";
import { figure } from "./text";

export interface HeadNumbers {
  readonly title: string;
  readonly values: readonly (readonly (number | null)[])[]; // layers x heads
  readonly low: number;
  readonly high: number;
  readonly signed: boolean;
  readonly difference?: boolean; // signed, and of two models
}

export interface Small {
  readonly layers: number;
  readonly heads: number;
  readonly size: number; // pixels of a side
  readonly pixels: Uint8Array; // layers x heads x size x size, 255 times the root of the attention
}

export interface GridOptions {
  readonly width: number;
  readonly theme: Theme;
  readonly selected?: HeadId | null;
}

const LEFT = 26;
const TOP = 34;

interface Grid {
  readonly cell: number;
  readonly right: number;
  readonly bottom: number;
  readonly x: (head: number) => number;
  readonly y: (layer: number) => number;
  readonly axes: Mark[];
}

function gridOf(layers: number, heads: number, { width, theme }: GridOptions, most: number): Grid {
  const cell = Math.max(8, Math.min(most, (width - LEFT - 8) / Math.max(1, heads)));
  const x = (head: number): number => LEFT + head * cell;
  const y = (layer: number): number => TOP + (layers - 1 - layer) * cell;
  const every = Math.max(1, Math.ceil(16 / cell));
  const axes: Mark[] = [text(LEFT, 12, "head", theme), text(2, TOP - 6, "layer", theme, { size: 10 })];
  for (let head = 0; head < heads; head += every) {
    axes.push(text(x(head) + cell / 2, TOP - 6, String(head), theme, { anchor: "middle", size: 10 }));
  }
  for (let layer = 0; layer < layers; layer += every) {
    axes.push(text(LEFT - 6, y(layer) + cell / 2 + 3.5, String(layer), theme, { anchor: "end", size: 10 }));
  }
  return { cell, right: LEFT + heads * cell, bottom: TOP + layers * cell, x, y, axes };
}

export function headmap(numbers: HeadNumbers, options: GridOptions): Scene {
  const { theme } = options;
  const { values, title } = numbers;
  const heads = Math.max(0, ...values.map((row) => row.length));
  const grid = gridOf(values.length, heads, options, 40);
  const { low, high, colour, root } = scaleOf(numbers, theme);
  const [marks, rows]: [Mark[], (string | number)[][]] = [[...grid.axes], []];
  for (let layer = values.length - 1; layer >= 0; layer--) {
    for (let head = 0; head < heads; head++) {
      const value = values[layer]?.[head] ?? null;
      rows.push([layer, head, value ?? "not known"]);
      marks.push({
        kind: "rect",
        x: grid.x(head) + 0.75,
        y: grid.y(layer) + 0.75,
        width: grid.cell - 1.5,
        height: grid.cell - 1.5,
        ...(value === null
          ? { stroke: theme.rule }
          : { fill: colour(value), stroke: theme.rule, strokeWidth: 0.5 }),
        hit: { kind: "head", layer, head },
        title: `layer ${layer}, head ${head}: ${value === null ? "not known" : figure(value)}`,
      });
    }
  }
  marks.push(...chosen(grid, options));
  marks.push(
    ...strip(
      { low, high, colour, root, title },
      theme,
      LEFT,
      grid.bottom + 26,
      Math.min(grid.right - LEFT, 240),
    ),
  );
  return {
    width: Math.max(options.width, grid.right + 8),
    height: grid.bottom + 58,
    marks,
    label: `${title}, for each of ${values.length} layers and ${heads} heads, from ${figure(low)} to ${figure(high)}.`,
    table: { columns: ["layer", "head", title], rows },
    edges: [],
  };
}

function scaleOf({ low, high, signed, difference }: HeadNumbers, theme: Theme) {
  if (!signed && !difference) {
    return { low, high, root: true, colour: (value: number) => theme.sequential(rooted(value, low, high)) };
  }
  // Symmetric, so that equal sizes have equal strength on both sides.
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const diverging = difference ? theme.difference : theme.signed;
  return { low: -most, high: most, root: false, colour: (value: number) => diverging(value / most) };
}

function chosen(grid: Grid, { selected, theme }: GridOptions): Mark[] {
  if (!selected) return [];
  const [layer, head] = selected;
  const box = { x: grid.x(head), y: grid.y(layer), width: grid.cell, height: grid.cell };
  return [{ kind: "rect", ...box, stroke: theme.accent, strokeWidth: 2.5 }];
}

/** All maps in small: each pixel is the largest weight of its part, so that single strong cells survive. */
export function thumbnails({ layers, heads, size, pixels }: Small, options: GridOptions): Scene {
  const { theme } = options;
  const grid = gridOf(layers, heads, options, 96);
  const table = palette(theme.sequential);
  const marks: Mark[] = [...grid.axes];
  const rows: (string | number)[][] = [];
  for (let layer = layers - 1; layer >= 0; layer--) {
    for (let head = 0; head < heads; head++) {
      const at = (layer * heads + head) * size * size;
      const part = pixels.subarray(at, at + size * size);
      const largest = (part.reduce((most, value) => Math.max(most, value), 0) / 255) ** 2;
      const box = { x: grid.x(head) + 1, y: grid.y(layer) + 1, width: grid.cell - 2, height: grid.cell - 2 };
      const title = `layer ${layer}, head ${head}: largest weight about ${figure(Number(largest.toFixed(2)))}`;
      rows.push([layer, head, Number(largest.toFixed(2))]);
      marks.push({ kind: "image", ...box, columns: size, rows: size, pixels: coloured(part, table) });
      // The frame is what the pointer and the keyboard find.
      marks.push({
        kind: "rect",
        ...box,
        stroke: theme.rule,
        strokeWidth: 0.5,
        hit: { kind: "head", layer, head },
        title,
      });
    }
  }
  marks.push(...chosen(grid, options));
  const colour = (value: number): string => theme.sequential(Math.sqrt(value));
  const legend = { low: 0, high: 1, root: true, colour, title: "attention" };
  marks.push(...strip(legend, theme, LEFT, grid.bottom + 26, Math.min(grid.right - LEFT, 240)));
  return {
    width: Math.max(options.width, grid.right + 8),
    height: grid.bottom + 58,
    marks,
    label: `Attention of ${layers} layers and ${heads} heads in small; rows attend, columns are attended to.`,
    table: { columns: ["layer", "head", "largest weight, about"], rows },
    edges: [],
  };
}
