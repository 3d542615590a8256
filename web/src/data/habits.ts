/** What heads attend to, as a grid and as rows. */

import type { Habits } from "../api/types";
import { range, percent } from "../shell/figures";
import type { Value } from "../shell/Table";

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
  "entropy, share",
  "n",
  "most of all",
];

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
