/** What heads attend to, as a grid and as rows. */

import type { Habits } from "../api/types";
import { range, percent } from "../shell/figures";
import type { Order, Value } from "../shell/Table";
import type { HeadId } from "../state/state";

/** Layers by heads; null where a head has no share of this kind. */
export function habitGrid(habits: Habits, kind: string): (number | null)[][] {
  const layers = 1 + Math.max(-1, ...habits.heads.map(({ layer }) => layer));
  const heads = 1 + Math.max(-1, ...habits.heads.map(({ head }) => head));
  const grid = Array.from({ length: layers }, () => new Array<number | null>(heads).fill(null));
  for (const { layer, head, shares } of habits.heads) {
    const row = grid[layer];
    if (row) row[head] = shares[kind]?.mean ?? null;
  }
  return grid;
}

export const HABIT_COLUMNS = (kind: string): readonly string[] => [
  "head",
  "layer",
  kind,
  "95% interval",
  "entropy",
  "n",
  "most of all",
];

/** Shares and entropy in percent, as their intervals are. */
export const HABIT_UNITS = [undefined, undefined, percent, undefined, percent];

export const BY_SHARE: Order = { column: 2, descending: true };

export function habitRows(habits: Habits, kind: string): readonly (readonly Value[])[] {
  return habits.heads.map(({ layer, head, shares, entropy, words }) => {
    const share = shares[kind];
    return [
      `${layer}.${head}`,
      layer,
      share?.mean ?? null,
      share ? range(share, percent) : null,
      entropy.mean,
      share?.n ?? 0,
      words,
    ];
  });
}

/** The head that attends to a kind of place the most, of equals the first. */
export function topHead({ heads }: Habits, kind: string): HeadId | null {
  const share = (habit: Habits["heads"][number]): number => habit.shares[kind]?.mean ?? -1;
  const [first, ...rest] = heads;
  if (first === undefined) return null;
  const top = rest.reduce((best, each) => (share(each) > share(best) ? each : best), first);
  return [top.layer, top.head];
}
