/** A table that sorts by any column. Long ones show their first rows, and say how many there are. */

import { useMemo, useState } from "react";

export type Value = string | number | null;

interface Props {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Value[])[];
  readonly hideCaption?: boolean;
  readonly most?: number; // rows shown before "all" is asked for
  readonly onRow?: (index: number) => void; // the row's number before sorting
  readonly selected?: number | null;
}

interface Order {
  readonly column: number;
  readonly descending: boolean;
}

export function Table({ caption, columns, rows, hideCaption, most = 50, onRow, selected }: Props) {
  const [order, setOrder] = useState<Order | null>(null);
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
    // What scrolls must be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
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
                      {written(value)}
                    </button>
                  ) : (
                    written(value)
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > most && (
        <button type="button" className="small" onClick={() => setAll(!all)}>
          {all ? `Only the first ${most}` : `All ${sorted.length} rows`}
        </button>
      )}
    </div>
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

function written(value: Value): string {
  if (value === null) return "–";
  if (typeof value === "string" || Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 1e-4 ? String(Number(value.toPrecision(4))) : value.toExponential(1);
}

function sortOf(order: Order | null, column: number): "ascending" | "descending" | "none" {
  if (order?.column !== column) return "none";
  return order.descending ? "descending" : "ascending";
}
