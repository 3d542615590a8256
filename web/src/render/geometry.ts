/** Geometry of paths for drawing and hit testing: arcs, outlines as points, distances, point in outline. */

import type { Command, Point } from "./scene";

/** Circular arc, by centre, radius and angles. */
export interface Arc {
  readonly cx: number;
  readonly cy: number;
  readonly from: number; // radians, as the canvas counts them
  readonly to: number;
  readonly radius: number;
}

/** Compute the circle of an arc between two points; all arcs here are circular. */
export function computeArc(
  x1: number,
  y1: number,
  radius: number,
  large: 0 | 1,
  sweep: 0 | 1,
  x2: number,
  y2: number,
): Arc {
  const half = Math.hypot(x2 - x1, y2 - y1) / 2;
  const r = Math.max(radius, half);
  const away = Math.sqrt(Math.max(0, r * r - half * half)) * (large === sweep ? -1 : 1);
  const [ux, uy] = half > 0 ? [(x2 - x1) / (2 * half), (y2 - y1) / (2 * half)] : [0, 0];
  const cx = (x1 + x2) / 2 - uy * away;
  const cy = (y1 + y2) / 2 + ux * away;
  const from = Math.atan2(y1 - cy, x1 - cx);
  let to = Math.atan2(y2 - cy, x2 - cx);
  if (sweep && to < from) to += 2 * Math.PI;
  if (!sweep && to > from) to -= 2 * Math.PI;
  return { cx, cy, from, to, radius: r };
}

/** Approximate a path by points, close enough for hit testing. */
export function tracePathPoints(commands: readonly Command[]): Point[] {
  const points: Point[] = [];
  let [x, y] = [0, 0];
  for (const command of commands) {
    switch (command[0]) {
      case "M":
      case "L":
        points.push([command[1], command[2]]);
        break;
      case "C":
        for (let step = 1; step <= 12; step++) points.push(interpolateBezier(x, y, command, step / 12));
        break;
      case "A": {
        const arc = computeArc(x, y, command[1], command[4], command[5], command[6], command[7]);
        const steps = Math.max(2, Math.ceil(Math.abs(arc.to - arc.from) * 4));
        for (let step = 1; step <= steps; step++) {
          const angle = arc.from + ((arc.to - arc.from) * step) / steps;
          points.push([arc.cx + arc.radius * Math.cos(angle), arc.cy + arc.radius * Math.sin(angle)]);
        }
        break;
      }
      case "Z":
        if (points[0]) points.push(points[0]);
    }
    [x, y] = points.at(-1) ?? [0, 0];
  }
  return points;
}

/** List points whose hull contains the path: a Bézier curve lies within its control points. */
export function boundPathPoints(commands: readonly Command[]): Point[] {
  if (commands.some((command) => command[0] === "A")) return tracePathPoints(commands);
  return commands.flatMap((command): Point[] => {
    if (command[0] === "M" || command[0] === "L") return [[command[1], command[2]]];
    if (command[0] !== "C") return [];
    return [[command[1], command[2]], [command[3], command[4]], [command[5], command[6]]]; // prettier-ignore
  });
}

function interpolateBezier(
  x: number,
  y: number,
  c: Extract<Command, readonly ["C", ...unknown[]]>,
  t: number,
): Point {
  const s = 1 - t;
  const [p, q, r, w] = [s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t];
  return [p * x + q * c[1] + r * c[3] + w * c[5], p * y + q * c[2] + r * c[4] + w * c[6]];
}

/** Measure the distance of a point from a segment. */
export function measureDistance(px: number, py: number, [ax, ay]: Point, [bx, by]: Point): number {
  const [dx, dy] = [bx - ax, by - ay];
  const length = dx * dx + dy * dy;
  const t = length > 0 ? Math.min(1, Math.max(0, ((px - ax) * dx + (py - ay) * dy) / length)) : 0;
  return Math.hypot(px - ax - t * dx, py - ay - t * dy);
}

/** Whether a point is inside a closed outline (even-odd). */
export function isInside(px: number, py: number, outline: readonly Point[]): boolean {
  let inside = false;
  for (let i = 0, j = outline.length - 1; i < outline.length; j = i++) {
    const [ax, ay] = outline[i] ?? [0, 0];
    const [bx, by] = outline[j] ?? [0, 0];
    if (ay > py !== by > py && px < ((bx - ax) * (py - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}
