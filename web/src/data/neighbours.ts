/** A row among those that are wanted, in their order: what comes before it and after it. */

import type { Asked } from "./rowlink";
import { orderedRows, type Row, wantedRows } from "./rows";

export interface Neighbours {
  readonly row: Row;
  readonly place: number; // from 1
  readonly of: number;
  readonly before: Row | null;
  readonly after: Row | null;
}

export function neighbours(rows: readonly Row[], { wanted, order, at }: Asked): Neighbours | null {
  const found = orderedRows(wantedRows(rows, wanted), order);
  const place = found.findIndex(({ number }) => number === at);
  const row = found[place];
  if (row === undefined) return null;
  return {
    row,
    place: place + 1,
    of: found.length,
    before: found[place - 1] ?? null,
    after: found[place + 1] ?? null,
  };
}
