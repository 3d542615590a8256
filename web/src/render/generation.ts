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
const GAP = 10; // between the prompt and what was said before
const SAID = 52; // the least width of that column: its figures are written out
const BEFORE = "(said before)";

export function generation(made: Generated, { width, theme }: Options): Scene {
  const { pieces, outputs, matrix, total, signed, method } = made;
  const before = saidBefore(made);
  const longest = Math.max(40, ...outputs.map((one) => widthOf(visible(one.text), SIZE)));
  const names = Math.min(130, longest) + 52;
  const beside = before ? GAP + SAID : 0;
  const cell = Math.min(220, Math.max(LEAST, (width - names - beside - 12) / Math.max(1, pieces.length)));
  const isFlat = cell > FLAT;
  const top = isFlat ? 24 : SLANTED;
  // Special tokens and what was said before do not set the scale, as in the terminal.
  const plain = (_: number, column: number): boolean => pieces[column]?.special === false;
  const scale = scaleOf(
    matrix.flatMap((scores) => scores.filter(plain)),
    signed,
  );
  const summed = scaleOf(total.filter(plain), signed);
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
  if (before) {
    const x = names + pieces.length * cell + GAP;
    marks.push(...beforeColumn(made, before, { x, top, under, scale, summed, isFlat, theme }));
  }
  marks.push(
    ...strip(
      {
        low: signed ? -scale.high : scale.low,
        high: scale.high,
        colour: (value) => tint(shadeOf(value, scale), signed, theme).background,
        title: legendOf(method, scale.high, before !== null),
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

/** For each output the sum of what fell on those before it; null where there is one output alone. */
function saidBefore({ earlier }: Generated): readonly number[] | null {
  return earlier.length > 1 ? earlier.map(sumOf) : null;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

interface Placed {
  readonly x: number;
  readonly top: number;
  readonly under: number;
  readonly scale: Scale;
  readonly summed: Scale;
  readonly isFlat: boolean;
  readonly theme: Theme;
}

/** The column of what was said before: often beyond the scale, so that its figures are written out. */
function beforeColumn(made: Generated, before: readonly number[], at: Placed): Mark[] {
  const { x, top, under, scale, summed, isFlat, theme } = at;
  const column = made.pieces.length;
  const name = isFlat
    ? text(x + SAID / 2, top - 8, "said before", theme, { size: 10, anchor: "middle", title: BEFORE })
    : text(x + SAID / 2 + 4, top - 8, BEFORE, theme, { size: SIZE, rotate: -90 });
  const cells = before.flatMap((score, row) => {
    const written = hundredths(score, scale.high);
    const title = (): string =>
      `${quoted(made.outputs[row]?.text ?? "")} from what was said before: ${figure(score)} (${written})`;
    return figured(x, top + row * ROW, score, written, scale, theme, {
      hit: { kind: "cell", row, column },
      title,
    });
  });
  const all = sumOf(before);
  const sum = figured(x, under, all, `${all > 0 ? "+" : ""}${figure(all)}`, summed, theme, {
    hit: { kind: "cell", row: made.outputs.length, column },
    title: () => `all of it from what was said before: ${figure(all)}`,
  });
  return [name, ...cells, ...sum];
}

function figured(
  x: number,
  y: number,
  score: number,
  written: string,
  scale: Scale,
  theme: Theme,
  rest: Pick<Mark, "hit" | "title">,
): Mark[] {
  const { color } = tint(shadeOf(score, scale), scale.signed, theme);
  const ink = { size: 10, anchor: "middle", fill: color } as const;
  return [
    square(x, y, SAID, score, scale, theme, rest),
    text(x + SAID / 2, y + 13, written.replace("-", "\u2212"), theme, ink),
  ];
}

/** A score in hundredths of the largest, as the terminal writes it. */
function hundredths(score: number, largest: number): string {
  const found = Math.round((100 * score) / (largest || 1));
  return found > 0 ? `+${found}` : String(found === 0 ? 0 : found);
}

function legendOf(method: string, largest: number, withBefore: boolean): string {
  const unit = withBefore ? `; +100 is the largest of a piece (${figure(largest)})` : "";
  return `${method}: score of a piece for an output${unit}; special tokens do not set the scale, and the last row has one of its own`;
}

function scaleOf(values: readonly number[], signed: boolean): Scale {
  const high = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return { signed, low: signed ? -high : 0, high };
}

function shared({ share, chance }: Generated["pieces"][number]): string {
  if (share === null || chance === null) return "";
  return `, ${percent(share)} of what fell on the prompt; by chance ${percent(chance)}`;
}

function tableOf(made: Generated): Table {
  const { pieces, outputs, matrix, total } = made;
  const before = saidBefore(made);
  const cells = outputs.flatMap((output, row) =>
    pieces.map(
      (piece, column) => [row, output.text, column, piece.text, matrix[row]?.[column] ?? 0] as const,
    ),
  );
  const sums = pieces.map((piece, column) => ["all", "", column, piece.text, total[column] ?? 0] as const);
  const said =
    before?.map((score, row) => [row, outputs[row]?.text ?? "", "before", BEFORE, score] as const) ?? [];
  const all = before ? [["all", "", "before", BEFORE, sumOf(before)] as const] : [];
  return {
    columns: ["output", "output text", "piece", "piece text", "score"],
    rows: [...cells, ...said, ...sums, ...all],
  };
}
