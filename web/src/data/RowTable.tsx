/** The rows of a data set, a page at a time: ten thousand of them must not slow a scroll. */

import { count, grouped, percent } from "../shell/figures";
import type { Asked } from "./rowlink";
import { type Order, orderedRows, type Row, type RowColumn, sheet, wantedRows } from "./rows";

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
  readonly asked: Asked;
  readonly surprise: string; // what surprise means here
  readonly onAsk: (change: Partial<Asked>) => void;
  readonly onRow: (row: Row) => void;
}

export function RowTable({ rows, asked, surprise, onAsk, onRow }: Props) {
  const { wanted, order, page, at } = asked;
  const found = orderedRows(wantedRows(rows, wanted), order);
  const shown = sheet(found, page, PAGE);
  const turn = (next: number): void => onAsk({ page: next });
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
                  className={headClass(column)}
                  aria-sort={order.column !== column ? "none" : order.descending ? "descending" : "ascending"}
                >
                  <button
                    type="button"
                    className="plain"
                    title={column === "surprise" ? surprise : undefined}
                    onClick={() => onAsk({ order: turnedOrder(order, column), page: 0 })}
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
              <tr key={row.number} className={classOf(row, at)}>
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
                  {row.right === false && (
                    <span className="mark">
                      {" "}
                      ✕<span className="said"> wrong</span>
                    </span>
                  )}
                </td>
                <td className="number chance">{row.probability === null ? "–" : percent(row.probability)}</td>
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
            Previous
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

function headClass(column: RowColumn): string | undefined {
  if (column === "probability") return "number chance";
  return NUMBERS.has(column) ? "number" : undefined;
}

function classOf(row: Row, at: number | null): string | undefined {
  const names = [row.right === false && "wrong", row.number === at && "selected"].filter(Boolean);
  return names.join(" ") || undefined;
}

/** The same column again turns it round; numbers begin with the largest, words with the first. */
function turnedOrder(order: Order, column: RowColumn): Order {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: column === "probability" || column === "surprise" };
}
