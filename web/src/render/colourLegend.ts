/** Legends: a strip of colours with the numbers they stand for. */

import { ticks as niceTicks } from "d3-array";
import { line, text } from "./marks";
import type { Mark, Theme } from "./scene";
import { figure } from "./text";

const STEPS = 48;
const STRIP = 10;

/** Where a value stands between the ends of a scale, in the scale's own measure: its root, so that small ones show. */
export function rooted(value: number, low: number, high: number): number {
  if (!(high > low)) return value > low ? 1 : 0;
  return Math.sqrt(Math.min(1, Math.max(0, (value - low) / (high - low))));
}

export interface Strip {
  readonly low: number;
  readonly high: number;
  readonly colour: (value: number) => string; // of a value, not of a share
  readonly root?: boolean; // whether the strip is spaced by roots, as the colours are
  readonly title: string;
}

export function strip(
  { low, high, colour, root, title }: Strip,
  theme: Theme,
  x: number,
  y: number,
  width: number,
): Mark[] {
  const span = high - low || 1;
  const valueAt = (share: number): number => low + (root ? share * share : share) * span;
  const placeOf = (value: number): number =>
    x + width * (root ? Math.sqrt((value - low) / span) : (value - low) / span);

  const marks: Mark[] = [text(x, y - 6, title, theme)];
  for (let i = 0; i < STEPS; i++) {
    const fill = colour(valueAt((i + 0.5) / STEPS));
    // A little overlap keeps the paper from shining through between the steps.
    marks.push({
      kind: "rect",
      x: x + (i * width) / STEPS,
      y,
      width: width / STEPS + 0.3,
      height: STRIP,
      fill,
    });
  }
  let last = Number.NEGATIVE_INFINITY;
  for (const tick of high > low ? niceTicks(low, high, 4) : [low]) {
    const at = placeOf(tick);
    if (at - last < 28) continue;
    last = at;
    marks.push(line(at, y + STRIP, at, y + STRIP + 3, theme.dim, 1));
    marks.push(text(at, y + STRIP + 14, figure(tick), theme, { anchor: "middle", size: 10 }));
  }
  return marks;
}
