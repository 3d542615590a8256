/** Layout of token columns from left to right, with labels below; idle tokens share a gap. */

import type { Token } from "../api/types";
import { findActiveTokens, foldIdleTokens, type Column } from "../flow/idleTokens";
import type { VisibleFlow } from "../flow/visibleFlow";
import { labelToken, type FlowOptions } from "./flowmarks";
import { text } from "./marks";
import type { Text } from "./scene";
import { fitWidth, quoteToken, measureWidth } from "./text";

const LEAST = 15; // below it, slanted labels touch each other
const MOST = 92;
const GAP = 0.7; // of a token's column
const SIZE = 12;
const SLANT = 50; // degrees

/** Positions of the columns, and their label marks. */
export interface TokenColumns {
  readonly unit: number; // from one column to the next
  readonly right: number;
  readonly deep: number; // height of the labels
  readonly x: ReadonlyMap<number, number>; // by token
  labels(y: number): Text[];
}

interface PlacedColumn {
  readonly column: Column;
  middle: number;
}

/** Whether neighbouring labels do not touch. */
function areLabelsApart(placed: readonly PlacedColumn[], tokens: readonly Token[]): boolean {
  const halves = placed.map(({ column }) =>
    column.kind === "gap" ? 12 : measureWidth(labelToken(tokens, column.token), SIZE) / 2,
  );
  return placed.every(({ middle }, i) => {
    const [left, right] = [placed[i - 1]?.middle ?? 0, halves[i - 1] ?? 0];
    return middle - left >= (halves[i] ?? 0) + right + 5;
  });
}

/** Lay out the columns between `left` and `right`; they extend further where the room is too small. */
export function layoutColumns(
  visible: VisibleFlow,
  options: FlowOptions,
  left: number,
  right: number,
): TokenColumns {
  const { tokens } = visible.flow;
  const folded = foldIdleTokens(tokens.length, findActiveTokens(visible, options.keep));
  const parts = folded.reduce((sum, column) => sum + (column.kind === "token" ? 1 : GAP), 0);
  const unit = Math.min(MOST, Math.max(LEAST, (right - left) / parts));

  const x = new Map<number, number>();
  const placed = folded.map((column): PlacedColumn => ({ column, middle: 0 }));
  let edge = left;
  for (const place of placed) {
    const width = unit * (place.column.kind === "token" ? 1 : GAP);
    place.middle = edge + width / 2;
    if (place.column.kind === "token") x.set(place.column.token, place.middle);
    edge += width;
  }

  const longest = Math.max(0, ...[...x.keys()].map((token) => measureWidth(labelToken(tokens, token), SIZE)));
  const isFlat = unit > 78 || areLabelsApart(placed, tokens);
  const room = unit > 78 ? unit - 6 : 96;
  const slant = (SLANT * Math.PI) / 180;
  // Slanted labels begin below the gaps' numbers, which they would cross.
  const lower = !isFlat && folded.some((column) => column.kind === "gap") ? 10 : 0;
  const deep = isFlat ? SIZE * 1.6 : Math.min(longest, room) * Math.sin(slant) + SIZE * 1.6 + lower;

  function labels(y: number): Text[] {
    return placed.map(({ column, middle }) => {
      const rest = isFlat ? ({ anchor: "middle" } as const) : ({ anchor: "end", rotate: -SLANT } as const);
      const at = isFlat ? middle : middle + 4;
      if (column.kind === "gap") {
        const title = `${column.count} tokens that take no part`;
        return text(middle, y + (isFlat ? SIZE : 8), `…${column.count}`, options.theme, {
          anchor: "middle",
          size: 10,
          title,
        });
      }
      const token = column.token;
      return text(at, y + SIZE + lower, fitWidth(labelToken(tokens, token), SIZE, room), options.theme, {
        ...rest,
        size: SIZE,
        fill: tokens[token]?.special ? options.theme.dim : options.theme.ink,
        hit: { kind: "token", token, level: 0 },
        title: `${quoteToken(tokens[token]?.text ?? "")}, token ${token}`,
      });
    });
  }
  return { unit, right: edge, deep, x, labels };
}
