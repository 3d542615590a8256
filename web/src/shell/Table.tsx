/** A table that sorts by any column. Long ones show their first rows, and say how many there are. */

import { useMemo, useState } from "react";

import { CsvButton } from "./CsvButton";
import { minus, type Written } from "./figures";

export type Value = string | number | null;

interface Props {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Value[])[];
  readonly hideCaption?: boolean;
  readonly written?: readonly (Written | undefined)[]; // numbers of a column, where its unit is not plain
  readonly first?: Order; // the order it opens in; absent: as the rows come
  readonly most?: number; // rows shown before "all" is asked for
  readonly onRow?: (index: number) => void; // the row's number before sorting
  readonly selected?: number | null;
  readonly file?: { readonly name: string; readonly caption: string }; // a button that saves all rows
}

export interface Order {
  readonly column: number;
  readonly descending: boolean;
}

export function Table({
  caption,
  columns,
  rows,
  hideCaption,
  written,
  first,
  most = 50,
  onRow,
  selected,
  file,
}: Props) {
  const [order, setOrder] = useState<Order | null>(first ?? null);
  const [all, setAll] = useState(false);
  const sorted = useMemo(() => sort(rows, order), [rows, order]);
  const numeric = columns.map((_, column) => rows.some((row) => typeof row[column] === "number"));
  const shown = all ? sorted : sorted.slice(0, most);
  const turn = (column: number): void =>
    setOrder((old) => ({
      column,
      descending: old?.column === column ? !old.descending : (numeric[column] ?? false),
    }));
  return (
    <>
      {/* What scrolls must be reachable by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className="table" role="region" aria-label={caption} tabIndex={0}>
        <table>
          <caption className={hideCaption ? "unseen" : undefined}>{caption}</caption>
          <thead>
            <tr>
              {columns.map((name, column) => (
                <th
                  key={name}
                  scope="col"
                  aria-sort={sortOf(order, column)}
                  className={numeric[column] ? "number" : undefined}
                >
                  <button type="button" className="plain" onClick={() => turn(column)}>
                    {name}
                    <span aria-hidden="true" className="arrow">
                      {order?.column === column ? (order.descending ? "▾" : "▴") : ""}
                    </span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ row, index }) => (
              <tr key={index} className={index === selected ? "selected" : undefined}>
                {row.map((value, column) => (
                  <td key={columns[column]} className={numeric[column] ? "number" : undefined}>
                    {onRow && column === 0 ? (
                      <button type="button" className="plain link" onClick={() => onRow(index)}>
                        {inWords(value, written?.[column])}
                      </button>
                    ) : (
                      inWords(value, written?.[column])
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(sorted.length > most || file) && (
        <p className="rest">
          {sorted.length > most && (
            <>
              <span className="dim">
                {shown.length} of {sorted.length} rows
              </span>
              <button type="button" className="small" onClick={() => setAll(!all)}>
                {all ? `Only the first ${most}` : `All ${sorted.length} rows`}
              </button>
            </>
          )}
          {file && <CsvButton {...file} table={{ columns, rows: sorted.map(({ row }) => row.map(cell)) }} />}
        </p>
      )}
    </>
  );
}

/** Rows with their numbers, in order; a stable sort, and what has no value comes last either way. */
export function sort(
  rows: readonly (readonly Value[])[],
  order: Order | null,
): { row: readonly Value[]; index: number }[] {
  const numbered = rows.map((row, index) => ({ row, index }));
  if (order === null) return numbered;
  const sign = order.descending ? -1 : 1;
  return numbered.sort((left, right) => {
    const a = left.row[order.column] ?? null;
    const b = right.row[order.column] ?? null;
    if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en");
  });
}

function cell(value: Value): string | number {
  return value ?? "";
}

function inWords(value: Value, written?: Written): string {
  if (value === null) return "–";
  if (typeof value === "string") return value;
  if (written) return written(value);
  if (Number.isInteger(value)) return minus(String(value));
  return minus(Math.abs(value) >= 1e-4 ? String(Number(value.toPrecision(4))) : value.toExponential(1));
}

function sortOf(order: Order | null, column: number): "ascending" | "descending" | "none" {
  if (order?.column !== column) return "none";
  return order.descending ? "descending" : "ascending";
}
