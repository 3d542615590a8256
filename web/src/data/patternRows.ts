/** Attention patterns of heads as a grid and as table rows. */

import type { AttentionPatterns } from "../api/types";
import { formatInterval, formatPercent } from "../shell/numberFormat";
import type { TableOrder, Value } from "../shell/Table";
import type { HeadId } from "../state/state";

/** Arrange a kind's shares as layers by heads; null where a head has none. */
export function buildShareGrid(patterns: AttentionPatterns, kind: string): (number | null)[][] {
  const layers = 1 + Math.max(-1, ...patterns.heads.map(({ layer }) => layer));
  const heads = 1 + Math.max(-1, ...patterns.heads.map(({ head }) => head));
  const grid = Array.from({ length: layers }, () => new Array<number | null>(heads).fill(null));
  for (const { layer, head, shares } of patterns.heads) {
    const row = grid[layer];
    if (row) row[head] = shares[kind]?.mean ?? null;
  }
  return grid;
}

/** List the table's columns for a kind of token. */
export const listPatternColumns = (kind: string): readonly string[] => [
  "head",
  "layer",
  kind,
  "95% interval",
  "entropy",
  "n",
  "most of all",
];

/** Number formats: shares and entropy in percent, as their intervals are. */
export const PATTERN_FORMATS = [undefined, undefined, formatPercent, undefined, formatPercent];

export const BY_SHARE: TableOrder = { column: 2, descending: true };

/** Build one table row for each head. */
export function buildPatternRows(patterns: AttentionPatterns, kind: string): readonly (readonly Value[])[] {
  return patterns.heads.map(({ layer, head, shares, entropy, words }) => {
    const share = shares[kind];
    return [
      `${layer}.${head}`,
      layer,
      share?.mean ?? null,
      share ? formatInterval(share, formatPercent) : null,
      entropy.mean,
      share?.n ?? 0,
      words,
    ];
  });
}

/** Find the head with the largest share of a kind; the first among equals. */
export function findTopHead({ heads }: AttentionPatterns, kind: string): HeadId | null {
  const share = (pattern: AttentionPatterns["heads"][number]): number => pattern.shares[kind]?.mean ?? -1;
  const [first, ...rest] = heads;
  if (first === undefined) return null;
  const top = rest.reduce((best, each) => (share(each) > share(best) ? each : best), first);
  return [top.layer, top.head];
}
