/** Removal curve: the target's output as tokens are removed, beside the band of random rankings. */

import { line, text } from "./marks";
import type { Command, Mark, Scene, Theme } from "./scene";
import { formatSignificant, fitWidth, formatShare } from "./text";

/** Points of the curve, and of the random band. */
export interface CurveNumbers {
  readonly at: readonly number[]; // share of tokens removed
  readonly values: readonly number[];
  readonly null_low: readonly number[];
  readonly null_mean: readonly number[];
  readonly null_high: readonly number[];
}

/** Options of a removal curve. */
export interface CurveOptions {
  readonly width: number;
  readonly theme: Theme;
  readonly title: string;
  readonly across: string; // name of the x axis
  readonly up: string; // name of the y axis
  readonly height?: number;
}

const LEFT = 34;
const BOTTOM = 48;
const TOP = 22;

/** Draw a removal curve. */
export function drawCurve(numbers: CurveNumbers, options: CurveOptions): Scene {
  const { width, theme, title, across, up, height = 176 } = options;
  const all = [...numbers.values, ...numbers.null_low, ...numbers.null_high, 0, 1];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const [right, bottom] = [width - 12, height - BOTTOM];
  const x = (share: number): number => LEFT + share * (right - LEFT);
  const y = (value: number): number => bottom - ((value - low) / (high - low)) * (bottom - TOP);
  const through = (values: readonly number[]): Command[] =>
    values.map((value, i) => [i === 0 ? "M" : "L", x(numbers.at[i] ?? 0), y(value)]);

  const band = [...through(numbers.null_high)];
  for (let i = numbers.null_low.length - 1; i >= 0; i--) {
    band.push(["L", x(numbers.at[i] ?? 0), y(numbers.null_low[i] ?? 0)]);
  }
  const marks: Mark[] = [];
  for (const value of [low, (low + high) / 2, high]) {
    marks.push(line(LEFT, y(value), right, y(value), theme.rule, 0.5));
    marks.push(
      text(LEFT - 5, y(value) + 3.5, formatSignificant(Number(value.toFixed(2))), theme, {
        anchor: "end",
        size: 10,
      }),
    );
  }
  if (band.length > 2)
    marks.push({ kind: "path", commands: [...band, ["Z"]], fill: theme.shared, opacity: 0.25 });
  marks.push({
    kind: "path",
    commands: through(numbers.null_mean),
    stroke: theme.dim,
    strokeWidth: 1,
    dash: [3, 3],
  });
  marks.push({ kind: "path", commands: through(numbers.values), stroke: theme.flow, strokeWidth: 2 });
  for (const share of [0, 0.5, 1]) {
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    marks.push(text(x(share), bottom + 13, formatShare(share), theme, { anchor, size: 10 }));
  }
  marks.push(text(2, 11, fitWidth(up, 10, width - 8), theme, { size: 10 }));
  marks.push(text(right, bottom + 26, across, theme, { anchor: "end", size: 10 }));
  marks.push(...drawKey(theme, LEFT, height - 6));
  numbers.values.forEach((value, row) => {
    const random = `random ${formatSignificant(numbers.null_mean[row] ?? 0)} (${formatSignificant(numbers.null_low[row] ?? 0)} to ${formatSignificant(numbers.null_high[row] ?? 0)})`;
    marks.push({
      kind: "path",
      commands: [["M", x(numbers.at[row] ?? 0) - 2, y(value)], ["L", x(numbers.at[row] ?? 0) + 2, y(value)]], // prettier-ignore
      stroke: theme.flow,
      strokeWidth: 4,
      hit: { kind: "cell", row, column: 0 },
      title: `${formatShare(numbers.at[row])} of the tokens: ${formatSignificant(value)}; ${random}`,
    });
  });
  return {
    width,
    height,
    marks,
    label: `${title}: from ${formatSignificant(numbers.values[0] ?? 0)} to ${formatSignificant(numbers.values.at(-1) ?? 0)}, with the band of random rankings.`,
    table: {
      columns: [across, up, "random low", "random mean", "random high"],
      rows: numbers.at.map((share, i) => [
        share,
        numbers.values[i] ?? "",
        numbers.null_low[i] ?? "",
        numbers.null_mean[i] ?? "",
        numbers.null_high[i] ?? "",
      ]),
    },
    edges: [],
  };
}

function drawKey(theme: Theme, x: number, y: number): Mark[] {
  return [
    line(x, y - 3, x + 16, y - 3, theme.flow, 2),
    text(x + 21, y, "this ranking", theme, { size: 10 }),
    { kind: "rect", x: x + 92, y: y - 8, width: 16, height: 9, fill: theme.rule },
    { ...line(x + 92, y - 3, x + 108, y - 3, theme.dim), dash: [3, 3] },
    text(x + 113, y, "random rankings", theme, { size: 10 }),
  ];
}
