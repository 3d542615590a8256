/** Attention matrix of one head, or the difference of two models', with labels and marginals of rows and columns. */

import type { Token } from "../api/types";
import { labelToken, nameToken } from "./flowmarks";
import { line, text } from "./marks";
import { colourValues, buildPalette } from "./pixels";
import { drawColourStrip } from "./colourLegend";
import type { Mark, Scene, Theme } from "./scene";
import { formatSignificant, fitWidth } from "./text";

/** Attention of one head, or of two models' heads to subtract. */
export interface Matrix {
  readonly values: Float32Array | readonly number[]; // tokens x tokens; rows attend
  readonly other?: Float32Array | readonly number[]; // second model's attention: the change is drawn
  readonly tokens: readonly Token[];
  readonly title: string;
}

/** Options of a matrix. */
export interface MatrixOptions {
  readonly width: number;
  readonly theme: Theme;
}

const IMAGE = 20_000; // number of cells from which an image replaces single marks
const LABEL = 84;
const SIDE = 46;
const TABLE = 2000; // rows, the largest first

/** Draw the matrix as an image with labels and marginals. */
export function drawMatrix(matrix: Matrix, { width, theme }: MatrixOptions): Scene {
  const { tokens, values, other, title } = matrix;
  const n = tokens.length;
  const cell = Math.max(n * n > IMAGE ? 1 : 4, Math.min(26, (width - LABEL - SIDE - 8) / Math.max(1, n)));
  const top = LABEL + SIDE;
  const side = n * cell;
  const at = (row: number, column: number): number => {
    const value = values[row * n + column] ?? 0;
    return other ? (other[row * n + column] ?? 0) - value : value;
  };
  const largest = findLargest(n, at);
  // Changes are coloured linearly, attention by its square root.
  const shade = (value: number): number =>
    other ? value / (largest || 1) : Math.sqrt(Math.max(0, value) / (largest || 1));
  const colour = (value: number): string =>
    other ? theme.difference(shade(value)) : theme.sequential(shade(value));
  const describe = (row: number, column: number): string =>
    `${nameToken(tokens, row)} ${other ? "to" : "attends to"} ${nameToken(tokens, column)}: ${other ? "B − A " : ""}${formatSignificant(at(row, column))}`;

  const cells: Mark[] =
    n * n > IMAGE
      ? [picture()]
      : Array.from({ length: n * n }, (_, i) => {
          const [row, column] = [Math.floor(i / n), i % n];
          const box = { x: LABEL + column * cell, y: top + row * cell, width: cell, height: cell };
          return {
            kind: "rect",
            ...box,
            fill: colour(at(row, column)),
            hit: { kind: "cell", row, column },
            title: describe(row, column),
          };
        });
  const marks: Mark[] = [
    ...cells,
    { kind: "rect", x: LABEL, y: top, width: side, height: side, stroke: theme.rule, strokeWidth: 0.75 },
    ...drawLabels(tokens, cell, top, theme),
    ...drawMarginals(n, cell, top, at, Boolean(other), theme),
    ...drawColourStrip(
      {
        low: other ? -largest : 0,
        high: largest,
        colour,
        root: !other,
        title: other ? "B − A" : "attention",
      },
      theme,
      LABEL,
      top + side + 28,
      Math.max(120, Math.min(240, side)),
    ),
  ];
  return {
    width: Math.max(width, LABEL + side + SIDE),
    height: top + side + 60,
    marks,
    label: `${title}: ${n} by ${n} tokens, rows attend, columns are attended to; largest ${formatSignificant(largest)}.`,
    table: buildTable(tokens, at, Boolean(other)),
    edges: [],
  };

  function picture(): Mark {
    const shades = Uint8Array.from({ length: n * n }, (_, i) => {
      const share = shade(at(Math.floor(i / n), i % n));
      return Math.round(255 * (other ? (share + 1) / 2 : share));
    });
    const scale = other ? (share: number) => theme.difference(share * 2 - 1) : theme.sequential;
    return {
      kind: "image",
      x: LABEL,
      y: top,
      width: side,
      height: side,
      columns: n,
      rows: n,
      pixels: colourValues(shades, buildPalette(scale)),
      cell: (row, column) => ({ hit: { kind: "cell", row, column }, title: describe(row, column) }),
    };
  }
}

type At = (row: number, column: number) => number;

function findLargest(n: number, at: At): number {
  let result = 0;
  for (let row = 0; row < n; row++)
    for (let column = 0; column < n; column++) result = Math.max(result, Math.abs(at(row, column)));
  return result;
}

/** Draw as many labels as there is room for. */
function drawLabels(tokens: readonly Token[], cell: number, top: number, theme: Theme): Mark[] {
  const size = Math.max(8, Math.min(12, cell * 0.85));
  const every = Math.max(1, Math.ceil(9 / cell));
  const marks: Mark[] = [];
  for (let token = 0; token < tokens.length; token += every) {
    const words = fitWidth(labelToken(tokens, token), size, LABEL - 10);
    const middle = (token + 0.5) * cell;
    const fill = tokens[token]?.special ? theme.dim : theme.ink;
    marks.push(text(LABEL - 6, top + middle + size * 0.35, words, theme, { size, fill, anchor: "end" }));
    marks.push(text(LABEL + middle + size * 0.35, top - SIDE - 6, words, theme, { size, fill, rotate: -90 }));
  }
  return marks;
}

/** Draw marginals: above, attention received; on the right, effective number of tokens, or the change of a row. */
function drawMarginals(
  n: number,
  cell: number,
  top: number,
  at: At,
  isChange: boolean,
  theme: Theme,
): Mark[] {
  const indices = Array.from({ length: n }, (_, i) => i);
  const received = indices.map(
    (column) => indices.reduce((sum, row) => sum + at(row, column), 0) / Math.max(1, n),
  );
  const spread = indices.map((row) =>
    isChange ? computeTotalVariation(indices, row, at) : countEffectiveTokens(indices, row, at),
  );
  const highest = Math.max(...received.map(Math.abs), 1e-12);
  const widest = isChange ? Math.max(...spread, 1e-12) : Math.max(1, n);
  const gap = cell > 6 ? 1 : 0;
  const marks: Mark[] = [line(LABEL, top - 4, LABEL + n * cell, top - 4, theme.rule, 0.75)];
  for (const i of indices) {
    const height = (Math.abs(received[i] ?? 0) / highest) * (SIDE - 12);
    const fill = isChange ? theme.difference(Math.sign(received[i] ?? 0) * 0.8) : theme.shared;
    const name = isChange ? "B − A, mean of the column" : "attention received, mean over rows";
    marks.push({
      kind: "rect",
      x: LABEL + i * cell + gap / 2,
      y: top - 4 - height,
      width: cell - gap,
      height,
      fill,
      title: `${name}: ${formatSignificant(received[i] ?? 0)}`,
    });
    const width = ((spread[i] ?? 0) / widest) * (SIDE - 12);
    const what = isChange ? "share of the row that moved" : "tokens it spreads over, effectively";
    marks.push({
      kind: "rect",
      x: LABEL + n * cell + 4,
      y: top + i * cell + gap / 2,
      width,
      height: cell - gap,
      fill: theme.shared,
      title: `${what}: ${formatSignificant(spread[i] ?? 0)}`,
    });
  }
  marks.push(text(LABEL + n * cell + 4, top - 8, isChange ? "moved" : "spread", theme, { size: 10 }));
  return marks;
}

/** Compute the effective number of tokens of a row: two to its entropy. */
function countEffectiveTokens(indices: readonly number[], row: number, at: At): number {
  return 2 ** indices.reduce((sum, column) => sum - computeEntropyTerm(at(row, column)), 0);
}

function computeEntropyTerm(p: number): number {
  return p > 0 ? p * Math.log2(p) : 0;
}

/** Compute the total variation of two rows: half of the summed absolute changes. */
function computeTotalVariation(indices: readonly number[], row: number, at: At): number {
  return indices.reduce((sum, column) => sum + Math.abs(at(row, column)), 0) / 2;
}

function buildTable(tokens: readonly Token[], at: At, isChange: boolean): Scene["table"] {
  const n = tokens.length;
  const sizes = Float32Array.from({ length: n * n }, (_, i) => Math.abs(at(Math.floor(i / n), i % n)));
  const least = Float32Array.from(sizes).sort().at(-TABLE) ?? 0;
  const order: number[] = [];
  sizes.forEach((size, i) => size >= least && order.push(i));
  order.sort((x, y) => (sizes[y] ?? 0) - (sizes[x] ?? 0) || x - y);
  const rows = order.slice(0, TABLE).map((i) => {
    const [row, column] = [Math.floor(i / n), i % n];
    return [row, tokens[row]?.text ?? "", column, tokens[column]?.text ?? "", at(row, column)];
  });
  return { columns: ["from", "from token", "to", "to token", isChange ? "B − A" : "attention"], rows };
}
