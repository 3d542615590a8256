/** Arrow-key navigation between the marks of a picture. */

import type { Mark } from "../render/scene";

type Box = readonly [x: number, y: number];

/** Find the index of the mark that a key moves to; null for other keys. */
export function findNextMark(marks: readonly Mark[], current: number | null, key: string): number | null {
  if (marks.length === 0) return null;
  if (current === null)
    return ARROWS.has(key) || key === "Home" ? 0 : key === "End" ? marks.length - 1 : null;
  switch (key) {
    case "ArrowRight":
      return Math.min(marks.length - 1, current + 1);
    case "ArrowLeft":
      return Math.max(0, current - 1);
    case "ArrowUp":
      return findNearest(marks, current, -1);
    case "ArrowDown":
      return findNearest(marks, current, 1);
    case "Home":
      return 0;
    case "End":
      return marks.length - 1;
    default:
      return null;
  }
}

const ARROWS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]);

/** Find the nearest mark above or below; horizontal distance counts three times. */
function findNearest(marks: readonly Mark[], current: number, sign: 1 | -1): number {
  const from = marks[current];
  if (!from) return current;
  const [x, y] = findCentre(from);
  let best = current;
  let least = Infinity;
  marks.forEach((mark, index) => {
    const [otherX, otherY] = findCentre(mark);
    const ahead = sign * (otherY - y);
    if (ahead <= 1) return;
    const cost = ahead + 3 * Math.abs(otherX - x);
    if (cost < least) [best, least] = [index, cost];
  });
  return best;
}

/** Find the centre of a mark. */
export function findCentre(mark: Mark): Box {
  switch (mark.kind) {
    case "rect":
    case "image":
      return [mark.x + mark.width / 2, mark.y + mark.height / 2];
    case "text":
      return [mark.x, mark.y];
    case "path": {
      const points = mark.commands.flatMap((command) =>
        command[0] === "Z" ? [] : [command.slice(-2) as [number, number]],
      );
      const sum = points.reduce(([x, y], [nextX, nextY]) => [x + nextX, y + nextY] as const, [0, 0] as Box);
      return [sum[0] / Math.max(1, points.length), sum[1] / Math.max(1, points.length)];
    }
  }
}
