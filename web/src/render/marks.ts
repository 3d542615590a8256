/** Constructors of a scene's marks: line, circle, ring sector, text, and paper behind a text. */

import type { Command, Path, Rect, Text, Theme } from "./scene";
import { measureWidth } from "./text";

/** Line between two points. */
export function line(x1: number, y1: number, x2: number, y2: number, stroke: string, strokeWidth = 1): Path {
  return { kind: "path", commands: [["M", x1, y1], ["L", x2, y2]], stroke, strokeWidth }; // prettier-ignore
}

/** Path of a circle. */
export function circle(x: number, y: number, r: number): Command[] {
  return [["M", x - r, y], ["A", r, r, 0, 1, 1, x + r, y], ["A", r, r, 0, 1, 1, x - r, y], ["Z"]]; // prettier-ignore
}

/** Path of a ring's cell, between two radii and two angles (radians, 0 is up, clockwise). */
export function sector(
  cx: number,
  cy: number,
  inner: number,
  outer: number,
  from: number,
  to: number,
): Command[] {
  const large = to - from > Math.PI ? 1 : 0;
  const [ax, ay] = polar(cx, cy, outer, from);
  const [bx, by] = polar(cx, cy, outer, to);
  const [dx, dy] = polar(cx, cy, inner, to);
  const [ex, ey] = polar(cx, cy, inner, from);
  return [
    ["M", ax, ay],
    ["A", outer, outer, 0, large, 1, bx, by],
    ["L", dx, dy],
    ["A", inner, inner, 0, large, 0, ex, ey],
    ["Z"],
  ];
}

/** Point at an angle and radius. */
export function polar(cx: number, cy: number, radius: number, angle: number): [number, number] {
  return [cx + radius * Math.sin(angle), cy - radius * Math.cos(angle)];
}

/** Text in the theme's ink. */
export function text(x: number, y: number, words: string, theme: Theme, rest: Partial<Text> = {}): Text {
  return { kind: "text", x, y, text: words, size: 11, fill: theme.dim, ...rest };
}

/** Rectangle of paper behind a text that lies on lines. */
export function paperBehind({ x, y, text, size, anchor = "start" }: Text, theme: Theme): Rect {
  const width = measureWidth(text, size) + 4;
  const left = { start: -2, middle: -width / 2, end: 2 - width }[anchor];
  return {
    kind: "rect",
    x: x + left,
    y: y - size * 0.95,
    width,
    height: size * 1.3,
    fill: theme.paper,
    radius: 2,
  };
}
