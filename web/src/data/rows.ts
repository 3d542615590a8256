/** The rows of a predicted data set: which are wanted, in which order. */

import type { Predicted } from "../api/types";

export type Row = Predicted["rows"][number];

export const COLUMNS = ["number", "text", "label", "predicted", "probability", "surprise"] as const;
export type RowColumn = (typeof COLUMNS)[number];

export interface Wanted {
  readonly search: string;
  readonly label: string | null;
  readonly predicted: string | null;
  readonly right: boolean | null;
  readonly numbers: readonly number[] | null; // some rows by their number in the file
}

export const ALL: Wanted = { search: "", label: null, predicted: null, right: null, numbers: null };

export interface Order {
  readonly column: RowColumn;
  readonly descending: boolean;
}

/** What surprises most comes first. */
export const BY_SURPRISE: Order = { column: "surprise", descending: true };

export function wantedRows(rows: readonly Row[], wanted: Wanted): readonly Row[] {
  const search = wanted.search.trim().toLowerCase();
  const numbers = wanted.numbers === null ? null : new Set(wanted.numbers);
  return rows.filter(
    (row) =>
      (wanted.label === null || row.label === wanted.label) &&
      (wanted.predicted === null || row.predicted === wanted.predicted) &&
      (wanted.right === null || row.right === wanted.right) &&
      (numbers === null || numbers.has(row.number)) &&
      (search === "" || `${row.text}\n${row.pair ?? ""}`.toLowerCase().includes(search)),
  );
}

/** In order; rows without a value come last either way, and equals stay in the order of the file. */
export function orderedRows(rows: readonly Row[], { column, descending }: Order): readonly Row[] {
  const sign = descending ? -1 : 1;
  return [...rows].sort((left, right) => {
    const a = left[column];
    const b = right[column];
    if (a === null || b === null)
      return Number(a === null) - Number(b === null) || left.number - right.number;
    const by = typeof a === "number" && typeof b === "number" ? a - b : compareText(String(a), String(b));
    return sign * by || left.number - right.number;
  });
}

// Ten thousand rows: localeCompare would take a hundred times as long.
const collator = new Intl.Collator("en");
function compareText(a: string, b: string): number {
  return collator.compare(a, b);
}

export function isFiltered(wanted: Wanted): boolean {
  return (
    wanted.search.trim() !== "" ||
    wanted.label !== null ||
    wanted.predicted !== null ||
    wanted.right !== null ||
    wanted.numbers !== null
  );
}

export interface Sheet {
  readonly rows: readonly Row[];
  readonly page: number; // from 0
  readonly pages: number;
}

/** One page of the rows; a page beyond the last is the last. */
export function sheet(rows: readonly Row[], page: number, size: number): Sheet {
  const pages = Math.max(1, Math.ceil(rows.length / size));
  const at = Math.min(Math.max(0, page), pages - 1);
  return { rows: rows.slice(at * size, (at + 1) * size), page: at, pages };
}
