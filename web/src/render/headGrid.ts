/** Grid of heads, layers by heads with the deepest layer on top: one number each, or a thumbnail of attention. */

import type { HeadId } from "../state/state";
import { text } from "./marks";
import { colourValues, buildPalette } from "./pixels";
import { computeRootShare, drawColourStrip } from "./colourLegend";
import type { Mark, Scene, Theme } from "./scene";
import { formatSignificant } from "./text";

/** One number for each head, with the ends of its scale. */
export interface HeadNumbers {
  readonly title: string;
  readonly values: readonly (readonly (number | null)[])[]; // layers x heads
  readonly low: number;
  readonly high: number;
  readonly signed: boolean;
  readonly difference?: boolean; // signed, and of two models
}

/** Pooled attention maps of all heads, as bytes. */
export interface Thumbnails {
  readonly layers: number;
  readonly heads: number;
  readonly size: number; // pixels per side
  readonly pixels: Uint8Array; // layers x heads x size x size, 255 times the root of the attention
}

/** Options of a head grid. */
export interface GridOptions {
  readonly width: number;
  readonly theme: Theme;
  readonly selected?: HeadId | null;
}

const LEFT = 26;
const TOP = 34;

interface GridLayout {
  readonly cell: number;
  readonly right: number;
  readonly bottom: number;
  readonly x: (head: number) => number;
  readonly y: (layer: number) => number;
  readonly axes: Mark[];
}

function layoutGrid(layers: number, heads: number, { width, theme }: GridOptions, most: number): GridLayout {
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

/** Draw one number for each head as a colour. */
export function drawHeadGrid(numbers: HeadNumbers, options: GridOptions): Scene {
  const { theme } = options;
  const { values, title } = numbers;
  const heads = Math.max(0, ...values.map((row) => row.length));
  const grid = layoutGrid(values.length, heads, options, 40);
  const { low, high, colour, root } = buildColourScale(numbers, theme);
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
        title: `layer ${layer}, head ${head}: ${value === null ? "not known" : formatSignificant(value)}`,
      });
    }
  }
  marks.push(...drawSelection(grid, options));
  marks.push(
    ...drawColourStrip(
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
    label: `${title}, for each of ${values.length} layers and ${heads} heads, from ${formatSignificant(low)} to ${formatSignificant(high)}.`,
    table: { columns: ["layer", "head", title], rows },
    edges: [],
  };
}

function buildColourScale({ low, high, signed, difference }: HeadNumbers, theme: Theme) {
  if (!signed && !difference) {
    return {
      low,
      high,
      root: true,
      colour: (value: number) => theme.sequential(computeRootShare(value, low, high)),
    };
  }
  // Symmetric, so that equal magnitudes have equal strength.
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const diverging = difference ? theme.difference : theme.signed;
  return { low: -most, high: most, root: false, colour: (value: number) => diverging(value / most) };
}

function drawSelection(grid: GridLayout, { selected, theme }: GridOptions): Mark[] {
  if (!selected) return [];
  const [layer, head] = selected;
  const box = { x: grid.x(head), y: grid.y(layer), width: grid.cell, height: grid.cell };
  return [{ kind: "rect", ...box, stroke: theme.accent, strokeWidth: 2.5 }];
}

/** Draw all attention maps in small; each pixel is the maximum of its area, so that single cells survive. */
export function drawThumbnails({ layers, heads, size, pixels }: Thumbnails, options: GridOptions): Scene {
  const { theme } = options;
  const grid = layoutGrid(layers, heads, options, 96);
  const table = buildPalette(theme.sequential);
  const marks: Mark[] = [...grid.axes];
  const rows: (string | number)[][] = [];
  for (let layer = layers - 1; layer >= 0; layer--) {
    for (let head = 0; head < heads; head++) {
      const at = (layer * heads + head) * size * size;
      const part = pixels.subarray(at, at + size * size);
      const largest = (part.reduce((most, value) => Math.max(most, value), 0) / 255) ** 2;
      const box = { x: grid.x(head) + 1, y: grid.y(layer) + 1, width: grid.cell - 2, height: grid.cell - 2 };
      const title = `layer ${layer}, head ${head}: largest weight about ${formatSignificant(Number(largest.toFixed(2)))}`;
      rows.push([layer, head, Number(largest.toFixed(2))]);
      marks.push({ kind: "image", ...box, columns: size, rows: size, pixels: colourValues(part, table) });
      // The frame is the target of pointer and keyboard.
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
  marks.push(...drawSelection(grid, options));
  const colour = (value: number): string => theme.sequential(Math.sqrt(value));
  const legend = { low: 0, high: 1, root: true, colour, title: "attention" };
  marks.push(...drawColourStrip(legend, theme, LEFT, grid.bottom + 26, Math.min(grid.right - LEFT, 240)));
  return {
    width: Math.max(options.width, grid.right + 8),
    height: grid.bottom + 58,
    marks,
    label: `Attention of ${layers} layers and ${heads} heads in small; rows attend, columns are attended to.`,
    table: { columns: ["layer", "head", "largest weight, about"], rows },
    edges: [],
  };
}
