/** Strip plot of a path verification: output change by the tested path as a bar, by random edge sets as dots. */

import { circle, line, text } from "../render/marks";
import type { Mark, Scene, Theme } from "../render/scene";
import { formatSignificant } from "../render/text";

/** Change of the output by the path, and by each random edge set. */
export interface PathChange {
  readonly change: number;
  readonly random: readonly number[];
}

interface Options {
  readonly width: number;
  readonly theme: Theme;
  readonly label: string;
}

const HEIGHT = 64;
const SIDE = 14;

/** Draw the strip plot. */
export function drawStripplot({ change, random }: PathChange, { width, theme, label }: Options): Scene {
  const all = [0, change, ...random];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const span = high - low || 1;
  const x = (value: number): number => SIDE + ((value - low) / span) * (width - 2 * SIDE);
  const middle = 26;
  const marks: Mark[] = [
    line(SIDE, middle, width - SIDE, middle, theme.rule),
    line(x(0), middle - 12, x(0), middle + 12, theme.dim),
  ];
  random.forEach((value, index) => {
    // Spread over three rows, so that equal values do not hide each other.
    const y = middle + ((index % 3) - 1) * 6;
    marks.push({
      kind: "path",
      commands: circle(x(value), y, 2.5),
      fill: theme.shared,
      title: `a random set: ${formatSignificant(value)}`,
    });
  });
  marks.push({
    ...line(x(change), middle - 14, x(change), middle + 14, theme.accent, 3),
    title: `the path: ${formatSignificant(change)}`,
  });
  const isRight = x(change) > width / 2;
  marks.push(
    text(x(change), 9, `path ${formatSignificant(change)}`, theme, {
      anchor: isRight ? "end" : "start",
      fill: theme.ink,
    }),
    text(x(0), HEIGHT - 8, "no change", theme, { anchor: x(0) > width / 2 ? "end" : "start", size: 10 }),
  );
  return {
    width,
    height: HEIGHT,
    marks,
    label,
    table: {
      columns: ["edges", "change"],
      rows: [
        ["the path", change],
        ...random.map((value, index) => [`random set ${index + 1}`, value] as const),
      ],
    },
    edges: [],
  };
}
