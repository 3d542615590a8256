/** From the prompt to what was written: outputs by pieces of the prompt, each cell a score, and below it what all sum to. */

import type { Generated } from "../api/types";
import { text } from "./marks";
import { strip } from "./scale";
import type { Mark, Scene, Table, Theme } from "./scene";
import { figure, fit, percent, quoted, visible, widthOf } from "./text";
import { type Scale, shadeOf, tint } from "./tint";

interface Options {
  readonly width: number;
  readonly theme: Theme;
}

const SIZE = 11;
const LEAST = 13;
const ROW = 19;
const SLANTED = 96; // room for the names of the pieces
const FLAT = 70; // a column that is wider needs no slant

export function generation(made: Generated, { width, theme }: Options): Scene {
  const { pieces, outputs, matrix, total, signed, method } = made;
  const longest = Math.max(40, ...outputs.map((one) => widthOf(visible(one.text), SIZE)));
  const names = Math.min(130, longest) + 52;
  const cell = Math.min(220, Math.max(LEAST, (width - names - 12) / Math.max(1, pieces.length)));
  const isFlat = cell > FLAT;
  const top = isFlat ? 24 : SLANTED;
  const scale = scaleOf(matrix.flat(), signed);
  const summed = scaleOf(total, signed);
  const marks: Mark[] = [];

  pieces.forEach((piece, column) => {
    const middle = names + (column + 0.5) * cell;
    const words = fit(visible(piece.text), SIZE, isFlat ? cell - 6 : SLANTED - 14);
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
    marks.push(...named(visible(output.text), output.probability, names, y, theme));
    pieces.forEach((piece, column) => {
      const score = matrix[row]?.[column] ?? 0;
      marks.push(
        square(names + column * cell, y, cell, score, scale, theme, {
          hit: { kind: "cell", row, column },
          title: () => `${quoted(output.text)} from ${quoted(piece.text)}: ${figure(score)}`,
        }),
      );
    });
  });
  const under = top + outputs.length * ROW + 8;
  marks.push(text(names - 8, under + 13, "all of it", theme, { anchor: "end", bold: true, fill: theme.ink }));
  pieces.forEach((piece, column) => {
    const score = total[column] ?? 0;
    marks.push(
      square(names + column * cell, under, cell, score, summed, theme, {
        hit: { kind: "cell", row: outputs.length, column },
        title: () => `all of it from ${quoted(piece.text)}: ${figure(score)}${shared(piece)}`,
      }),
    );
  });
  marks.push(
    ...strip(
      {
        low: signed ? -scale.high : scale.low,
        high: scale.high,
        colour: (value) => tint(shadeOf(value, scale), signed, theme).background,
        title: `${method}: score of a piece for an output; the last row has a scale of its own`,
      },
      theme,
      names,
      under + ROW + 26,
      220,
    ),
  );
  return {
    width: Math.max(width, names + pieces.length * cell + 12),
    height: under + ROW + 62,
    marks,
    label: `${outputs.length} outputs by ${pieces.length} pieces of the prompt, by ${method}; the last row is what all of them sum to.`,
    get table() {
      return tableOf(made);
    },
    edges: [],
  };
}

function named(words: string, probability: number | null, right: number, y: number, theme: Theme): Mark[] {
  const odds = probability === null ? "" : percent(probability);
  return [
    text(right - 46, y + 13, fit(words, SIZE, right - 54), theme, {
      size: SIZE,
      fill: theme.ink,
      anchor: "end",
    }),
    text(right - 8, y + 13, odds, theme, { size: 10, anchor: "end" }),
  ];
}

function square(
  x: number,
  y: number,
  width: number,
  score: number,
  scale: Scale,
  theme: Theme,
  rest: Pick<Mark, "hit" | "title">,
): Mark {
  const { background } = tint(shadeOf(score, scale), scale.signed, theme);
  const box = { x: x + 0.5, y: y + 0.5, width: width - 1, height: ROW - 1 };
  return { kind: "rect", ...box, fill: background, stroke: theme.rule, strokeWidth: 0.5, ...rest };
}

function scaleOf(values: readonly number[], signed: boolean): Scale {
  const high = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return {
    signed,
    low: signed ? -high : values.reduce((least, value) => Math.min(least, value), high),
    high,
  };
}

function shared({ share, chance }: Generated["pieces"][number]): string {
  if (share === null || chance === null) return "";
  return `, ${percent(share)} of what fell on the prompt; by chance ${percent(chance)}`;
}

function tableOf({ pieces, outputs, matrix, total }: Generated): Table {
  const cells = outputs.flatMap((output, row) =>
    pieces.map(
      (piece, column) => [row, output.text, column, piece.text, matrix[row]?.[column] ?? 0] as const,
    ),
  );
  const sums = pieces.map((piece, column) => ["all", "", column, piece.text, total[column] ?? 0] as const);
  return { columns: ["output", "output text", "piece", "piece text", "score"], rows: [...cells, ...sums] };
}
