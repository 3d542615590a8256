/** Sortable table with formatted cells, clickable rows and CSV button; long ones show their first rows. */

import { useMemo, useState } from "react";

import { CsvButton } from "./CsvButton";
import { replaceHyphens, type NumberFormat } from "./numberFormat";

/** Cell of a table. */
export type Value = string | number | null;

interface Props {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Value[])[];
  readonly hideCaption?: boolean;
  readonly formats?: readonly (NumberFormat | undefined)[]; // number formats by column; absent: plain
  readonly first?: TableOrder; // initial order; absent: the order of the rows
  readonly most?: number; // rows before the "all" button
  readonly onRow?: (index: number) => void; // index before sorting
  readonly selected?: number | null;
  readonly file?: { readonly name: string; readonly caption: string }; // file name of the CSV button
}

/** Column and direction of the sort. */
export interface TableOrder {
  readonly column: number;
  readonly descending: boolean;
}

/** Show a sortable table. */
export function Table({
  caption,
  columns,
  rows,
  hideCaption,
  formats: written,
  first,
  most = 50,
  onRow,
  selected,
  file,
}: Props) {
  const [order, setOrder] = useState<TableOrder | null>(first ?? null);
  const [all, setAll] = useState(false);
  const sorted = useMemo(() => sortTableRows(rows, order), [rows, order]);
  const numeric = columns.map((_, column) => rows.some((row) => typeof row[column] === "number"));
  const visibleRows = all ? sorted : sorted.slice(0, most);
  const turn = (column: number): void =>
    setOrder((old) => ({
      column,
      descending: old?.column === column ? !old.descending : (numeric[column] ?? false),
    }));
  return (
    <>
      {/* Scrollable areas must be reachable by keyboard. */}
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
                  aria-sort={getAriaSort(order, column)}
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
            {visibleRows.map(({ row, index }) => (
              <tr key={index} className={index === selected ? "selected" : undefined}>
                {row.map((value, column) => (
                  <td key={columns[column]} className={numeric[column] ? "number" : undefined}>
                    {onRow && column === 0 ? (
                      <button type="button" className="plain link" onClick={() => onRow(index)}>
                        {formatValue(value, written?.[column])}
                      </button>
                    ) : (
                      formatValue(value, written?.[column])
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
                {visibleRows.length} of {sorted.length} rows
              </span>
              <button type="button" className="small" onClick={() => setAll(!all)}>
                {all ? `Only the first ${most}` : `All ${sorted.length} rows`}
              </button>
            </>
          )}
          {file && (
            <CsvButton {...file} table={{ columns, rows: sorted.map(({ row }) => row.map(formatCsvCell)) }} />
          )}
        </p>
      )}
    </>
  );
}

/** Sort rows stably, with their indices; those without a value come last in either direction. */
export function sortTableRows(
  rows: readonly (readonly Value[])[],
  order: TableOrder | null,
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

function formatCsvCell(value: Value): string | number {
  return value ?? "";
}

function formatValue(value: Value, written?: NumberFormat): string {
  if (value === null) return "–";
  if (typeof value === "string") return value;
  if (written) return written(value);
  if (Number.isInteger(value)) return replaceHyphens(String(value));
  return replaceHyphens(
    Math.abs(value) >= 1e-4 ? String(Number(value.toPrecision(4))) : value.toExponential(1),
  );
}

function getAriaSort(order: TableOrder | null, column: number): "ascending" | "descending" | "none" {
  if (order?.column !== column) return "none";
  return order.descending ? "descending" : "ascending";
}
