/** Generation grid: generated tokens by parts of the prompt, each cell a score, with column sums below. */

import type { Generation } from "../api/types";
import { text } from "./marks";
import { drawColourStrip } from "./colourLegend";
import type { Mark, Scene, TableData, Theme } from "./scene";
import { formatSignificant, fitWidth, formatShare, quoteToken, showInvisible, measureWidth } from "./text";
import { type Scale, computeShade, tintShade } from "./tint";

interface Options {
  readonly width: number;
  readonly theme: Theme;
}

const SIZE = 11;
const LEAST = 13;
const ROW = 19;
const SLANTED = 96; // height of the slanted names
const FLAT = 70; // columns at least this wide have level names
const GAP = 10; // gap before the column of earlier outputs
const EARLIER_WIDTH = 52; // least width of that column, whose numbers are written out
const EARLIER_TITLE = "(said before)";

/** Draw the generation grid. */
export function drawGeneration(generation: Generation, { width, theme }: Options): Scene {
  const { pieces, outputs, matrix, total, signed, method } = generation;
  const before = sumEarlier(generation);
  const longest = Math.max(40, ...outputs.map((one) => measureWidth(showInvisible(one.text), SIZE)));
  const names = Math.min(130, longest) + 52;
  const beside = before ? GAP + EARLIER_WIDTH : 0;
  const cell = Math.min(220, Math.max(LEAST, (width - names - beside - 12) / Math.max(1, pieces.length)));
  const isFlat = cell > FLAT;
  const top = isFlat ? 24 : SLANTED;
  // Special tokens and earlier outputs do not set the scale, as in the terminal.
  const plain = (_: number, column: number): boolean => pieces[column]?.special === false;
  const scale = buildScale(
    matrix.flatMap((scores) => scores.filter(plain)),
    signed,
  );
  const summed = buildScale(total.filter(plain), signed);
  const marks: Mark[] = [];

  pieces.forEach((piece, column) => {
    const middle = names + (column + 0.5) * cell;
    const words = fitWidth(showInvisible(piece.text), SIZE, isFlat ? cell - 6 : SLANTED - 14);
    const rest = isFlat ? { anchor: "middle" as const } : { rotate: -90 };
    marks.push(
      text(isFlat ? middle : middle + 4, top - 8, words, theme, {
        size: SIZE,
        bold: piece.marked,
        fill: piece.special ? theme.dim : theme.ink,
        title: piece.text,
        ...rest,
      }),
    );
  });
  outputs.forEach((output, row) => {
    const y = top + row * ROW;
    marks.push(...drawOutputName(showInvisible(output.text), output.probability, names, y, theme));
    pieces.forEach((piece, column) => {
      const score = matrix[row]?.[column] ?? 0;
      marks.push(
        drawCell(names + column * cell, y, cell, score, scale, theme, {
          hit: { kind: "cell", row, column },
          title: () =>
            `${quoteToken(output.text)} from ${quoteToken(piece.text)}: ${formatSignificant(score)}`,
        }),
      );
    });
  });
  const under = top + outputs.length * ROW + 8;
  marks.push(text(names - 8, under + 13, "all of it", theme, { anchor: "end", bold: true, fill: theme.ink }));
  pieces.forEach((piece, column) => {
    const score = total[column] ?? 0;
    marks.push(
      drawCell(names + column * cell, under, cell, score, summed, theme, {
        hit: { kind: "cell", row: outputs.length, column },
        title: () =>
          `all of it from ${quoteToken(piece.text)}: ${formatSignificant(score)}${formatPieceShare(piece)}`,
      }),
    );
  });
  if (before) {
    const x = names + pieces.length * cell + GAP;
    marks.push(...drawEarlierColumn(generation, before, { x, top, under, scale, summed, isFlat, theme }));
  }
  marks.push(
    ...drawColourStrip(
      {
        low: signed ? -scale.high : scale.low,
        high: scale.high,
        colour: (value) => tintShade(computeShade(value, scale), signed, theme).background,
        title: formatLegend(method, scale.high, before !== null),
      },
      theme,
      names,
      under + ROW + 26,
      220,
    ),
  );
  return {
    width: Math.max(width, names + pieces.length * cell + beside + 12),
    height: under + ROW + 62,
    marks,
    label: `${outputs.length} outputs by ${pieces.length} pieces of the prompt, by ${method}; the last row is what all of them sum to${
      before ? ", the last column what fell on what was said before" : ""
    }.`,
    get table() {
      return buildTable(generation);
    },
    edges: [],
  };
}

function drawOutputName(
  words: string,
  probability: number | null,
  right: number,
  y: number,
  theme: Theme,
): Mark[] {
  const odds = probability === null ? "" : formatShare(probability);
  return [
    text(right - 46, y + 13, fitWidth(words, SIZE, right - 54), theme, {
      size: SIZE,
      fill: theme.ink,
      anchor: "end",
    }),
    text(right - 8, y + 13, odds, theme, { size: 10, anchor: "end" }),
  ];
}

function drawCell(
  x: number,
  y: number,
  width: number,
  score: number,
  scale: Scale,
  theme: Theme,
  rest: Pick<Mark, "hit" | "title">,
): Mark {
  const { background } = tintShade(computeShade(score, scale), scale.signed, theme);
  const box = { x: x + 0.5, y: y + 0.5, width: width - 1, height: ROW - 1 };
  return { kind: "rect", ...box, fill: background, stroke: theme.rule, strokeWidth: 0.5, ...rest };
}

/** Sum each output's scores on earlier outputs; null where there is only one output. */
function sumEarlier({ earlier }: Generation): readonly number[] | null {
  return earlier.length > 1 ? earlier.map(sumValues) : null;
}

function sumValues(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

interface ColumnLayout {
  readonly x: number;
  readonly top: number;
  readonly under: number;
  readonly scale: Scale;
  readonly summed: Scale;
  readonly isFlat: boolean;
  readonly theme: Theme;
}

/** Draw the column of earlier outputs; often beyond the scale, so its numbers are written out. */
function drawEarlierColumn(generation: Generation, before: readonly number[], at: ColumnLayout): Mark[] {
  const { x, top, under, scale, summed, isFlat, theme } = at;
  const column = generation.pieces.length;
  const name = isFlat
    ? text(x + EARLIER_WIDTH / 2, top - 8, "said before", theme, {
        size: 10,
        anchor: "middle",
        title: EARLIER_TITLE,
      })
    : text(x + EARLIER_WIDTH / 2 + 4, top - 8, EARLIER_TITLE, theme, { size: SIZE, rotate: -90 });
  const cells = before.flatMap((score, row) => {
    const written = formatHundredths(score, scale.high);
    const title = (): string =>
      `${quoteToken(generation.outputs[row]?.text ?? "")} from what was said before: ${formatSignificant(score)} (${written})`;
    return drawNumberCell(x, top + row * ROW, score, written, scale, theme, {
      hit: { kind: "cell", row, column },
      title,
    });
  });
  const all = sumValues(before);
  const sum = drawNumberCell(x, under, all, `${all > 0 ? "+" : ""}${formatSignificant(all)}`, summed, theme, {
    hit: { kind: "cell", row: generation.outputs.length, column },
    title: () => `all of it from what was said before: ${formatSignificant(all)}`,
  });
  return [name, ...cells, ...sum];
}

function drawNumberCell(
  x: number,
  y: number,
  score: number,
  written: string,
  scale: Scale,
  theme: Theme,
  rest: Pick<Mark, "hit" | "title">,
): Mark[] {
  const { color } = tintShade(computeShade(score, scale), scale.signed, theme);
  const ink = { size: 10, anchor: "middle", fill: color } as const;
  return [
    drawCell(x, y, EARLIER_WIDTH, score, scale, theme, rest),
    text(x + EARLIER_WIDTH / 2, y + 13, written.replace("-", "\u2212"), theme, ink),
  ];
}

/** Format a score in hundredths of the largest, as the terminal does. */
function formatHundredths(score: number, largest: number): string {
  const result = Math.round((100 * score) / (largest || 1));
  return result > 0 ? `+${result}` : String(result === 0 ? 0 : result);
}

function formatLegend(method: string, largest: number, withBefore: boolean): string {
  const unit = withBefore ? `; +100 is the largest of a piece (${formatSignificant(largest)})` : "";
  return `${method}: score of a piece for an output${unit}; special tokens do not set the scale, and the last row has one of its own`;
}

function buildScale(values: readonly number[], signed: boolean): Scale {
  const high = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return { signed, low: signed ? -high : 0, high };
}

function formatPieceShare({ share, chance }: Generation["pieces"][number]): string {
  if (share === null || chance === null) return "";
  return `, ${formatShare(share)} of what fell on the prompt; by chance ${formatShare(chance)}`;
}

function buildTable(generation: Generation): TableData {
  const { pieces, outputs, matrix, total } = generation;
  const before = sumEarlier(generation);
  const cells = outputs.flatMap((output, row) =>
    pieces.map(
      (piece, column) => [row, output.text, column, piece.text, matrix[row]?.[column] ?? 0] as const,
    ),
  );
  const sums = pieces.map((piece, column) => ["all", "", column, piece.text, total[column] ?? 0] as const);
  const earlierRows =
    before?.map((score, row) => [row, outputs[row]?.text ?? "", "before", EARLIER_TITLE, score] as const) ??
    [];
  const all = before ? [["all", "", "before", EARLIER_TITLE, sumValues(before)] as const] : [];
  return {
    columns: ["output", "output text", "piece", "piece text", "score"],
    rows: [...cells, ...earlierRows, ...sums, ...all],
  };
}
