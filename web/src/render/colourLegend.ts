/** Colour legend: a strip of colours with tick numbers. */

import { ticks as niceTicks } from "d3-array";
import { line, text } from "./marks";
import type { Mark, Theme } from "./scene";
import { formatSignificant } from "./text";

const STEPS = 48;
const STRIP = 10;

/** Compute the position of a value on a square-root scale, on which small values stay visible. */
export function computeRootShare(value: number, low: number, high: number): number {
  if (!(high > low)) return value > low ? 1 : 0;
  return Math.sqrt(Math.min(1, Math.max(0, (value - low) / (high - low))));
}

/** Ends, colours and title of a legend. */
export interface ColourStrip {
  readonly low: number;
  readonly high: number;
  readonly colour: (value: number) => string; // takes a value, not a share
  readonly root?: boolean; // square-root spacing, as the colours have
  readonly title: string;
}

/** Draw a colour legend. */
export function drawColourStrip(
  { low, high, colour, root, title }: ColourStrip,
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
    // A small overlap hides the paper between the steps.
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
    marks.push(text(at, y + STRIP + 14, formatSignificant(tick), theme, { anchor: "middle", size: 10 }));
  }
  return marks;
}
