/** The rows of a data set, a page at a time: ten thousand of them must not slow a scroll. */

import { useState } from "react";

import { count, grouped, percent } from "../shell/figures";
import { type Order, orderedRows, type Row, type RowColumn, sheet, type Wanted, wantedRows } from "./rows";

const PAGE = 50;
const HEADS: readonly (readonly [RowColumn, string])[] = [
  ["number", "row"],
  ["text", "text"],
  ["label", "label"],
  ["predicted", "predicted"],
  ["probability", "probability"],
  ["surprise", "surprise"],
];
const NUMBERS: ReadonlySet<RowColumn> = new Set(["number", "probability", "surprise"]);

interface Props {
  readonly rows: readonly Row[];
  readonly wanted: Wanted;
  readonly order: Order;
  readonly surprise: string; // what surprise means here
  readonly onOrder: (order: Order) => void;
  readonly onRow: (row: Row) => void;
}

export function RowTable({ rows, wanted, order, surprise, onOrder, onRow }: Props) {
  const [turned, setTurned] = useState({ of: "", page: 0 });
  const which = JSON.stringify([wanted, order]);
  const found = orderedRows(wantedRows(rows, wanted), order);
  const shown = sheet(found, turned.of === which ? turned.page : 0, PAGE);
  const turn = (page: number): void => setTurned({ of: which, page });
  const labelled = rows.some((row) => row.label !== null);
  const heads = HEADS.filter(([column]) => labelled || column !== "label");
  const most = Math.max(1, ...found.map((row) => row.surprise ?? 0));
  if (found.length === 0) return <p className="empty">No row answers to this. Take a filter away.</p>;
  return (
    <>
      {/* What scrolls must be reachable by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className="table rows" role="region" aria-label="Rows" tabIndex={0}>
        <table>
          <caption className="unseen">Rows of the data set; {surprise}</caption>
          <thead>
            <tr>
              {heads.map(([column, name]) => (
                <th
                  key={column}
                  scope="col"
                  className={NUMBERS.has(column) ? "number" : undefined}
                  aria-sort={order.column !== column ? "none" : order.descending ? "descending" : "ascending"}
                >
                  <button
                    type="button"
                    className="plain"
                    title={column === "surprise" ? surprise : undefined}
                    onClick={() => onOrder(turnedOrder(order, column))}
                  >
                    {name}
                    <span aria-hidden="true" className="arrow">
                      {order.column === column ? (order.descending ? "▾" : "▴") : ""}
                    </span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.rows.map((row) => (
              <tr key={row.number} className={row.right === false ? "wrong" : undefined}>
                <td className="number dim">{row.number}</td>
                <td className="text">
                  <button
                    type="button"
                    className="plain"
                    title="Explain this input"
                    onClick={() => onRow(row)}
                  >
                    {row.text}
                    {row.pair !== null && <span className="pair">{row.pair}</span>}
                  </button>
                </td>
                {labelled && <td>{row.label ?? "–"}</td>}
                <td>
                  {row.predicted}
                  {row.right === false && <span className="mark"> ✕ wrong</span>}
                </td>
                <td className="number">{row.probability === null ? "–" : percent(row.probability)}</td>
                <td className="number measure">
                  <span
                    className="gauge"
                    aria-hidden="true"
                    style={{ width: `${(36 * (row.surprise ?? 0)) / most}px` }}
                  />
                  <span className="bits">{row.surprise === null ? "–" : row.surprise.toFixed(2)}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.pages > 1 && (
        <div className="pager" role="group" aria-label="Pages of the table">
          <button
            type="button"
            className="small"
            disabled={shown.page === 0}
            onClick={() => turn(shown.page - 1)}
          >
            Before
          </button>
          <span className="dim" aria-live="polite">
            {grouped(shown.page * PAGE + 1)}–{grouped(shown.page * PAGE + shown.rows.length)} of{" "}
            {count(found.length, "row")}
          </span>
          <button
            type="button"
            className="small"
            disabled={shown.page === shown.pages - 1}
            onClick={() => turn(shown.page + 1)}
          >
            Next
          </button>
        </div>
      )}
    </>
  );
}

/** The same column again turns it round; numbers begin with the largest, words with the first. */
function turnedOrder(order: Order, column: RowColumn): Order {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: column === "probability" || column === "surprise" };
}
