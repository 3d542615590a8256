/** Neighbours of a row in the filtered and sorted table. */

import type { RowQuery } from "./rowQuery";
import { sortRows, type Row, filterRows } from "./rows";

/** A row, its position, and the rows before and after it. */
export interface Neighbours {
  readonly row: Row;
  readonly place: number; // from 1
  readonly of: number;
  readonly before: Row | null;
  readonly after: Row | null;
}

/** Find the neighbours of the row that is open; null where the filter leaves it out. */
export function findNeighbours(rows: readonly Row[], { filter, order, at }: RowQuery): Neighbours | null {
  const matches = sortRows(filterRows(rows, filter), order);
  const place = matches.findIndex(({ number }) => number === at);
  const row = matches[place];
  if (row === undefined) return null;
  return {
    row,
    place: place + 1,
    of: matches.length,
    before: matches[place - 1] ?? null,
    after: matches[place + 1] ?? null,
  };
}
