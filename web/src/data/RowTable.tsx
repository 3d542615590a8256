/** Paginated table of the rows; pages keep 10 000 rows from slowing the scroll. */

import { formatCount, formatWhole, formatPercent } from "../shell/numberFormat";
import type { RowQuery } from "./rowQuery";
import { type RowOrder, sortRows, type Row, type RowColumn, paginate, filterRows } from "./rows";

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
  readonly query: RowQuery;
  readonly surprise: string; // definition of surprise, for the column's title
  readonly onAsk: (change: Partial<RowQuery>) => void;
  readonly onRow: (row: Row) => void;
}

/** Show one page of the rows, sortable by column. */
export function RowTable({ rows, query, surprise, onAsk, onRow }: Props) {
  const { filter, order, page, at } = query;
  const matches = sortRows(filterRows(rows, filter), order);
  const rowPage = paginate(matches, page, PAGE);
  const turn = (next: number): void => onAsk({ page: next });
  const labelled = rows.some((row) => row.label !== null);
  const heads = HEADS.filter(([column]) => labelled || column !== "label");
  const most = Math.max(1, ...matches.map((row) => row.surprise ?? 0));
  if (matches.length === 0) return <p className="empty">No row answers to this. Take a filter away.</p>;
  return (
    <>
      {/* Scrollable areas must be reachable by keyboard. */}
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
                  className={getHeaderClass(column)}
                  aria-sort={order.column !== column ? "none" : order.descending ? "descending" : "ascending"}
                >
                  <button
                    type="button"
                    className="plain"
                    title={column === "surprise" ? surprise : undefined}
                    onClick={() => onAsk({ order: turnOrder(order, column), page: 0 })}
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
            {rowPage.rows.map((row) => (
              <tr key={row.number} className={getRowClass(row, at)}>
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
                <td className="number chance">
                  {row.probability === null ? "–" : formatPercent(row.probability)}
                </td>
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
      {rowPage.pages > 1 && (
        <div className="pager" role="group" aria-label="Pages of the table">
          <button
            type="button"
            className="small"
            disabled={rowPage.page === 0}
            onClick={() => turn(rowPage.page - 1)}
          >
            Previous
          </button>
          <span className="dim" aria-live="polite">
            {formatWhole(rowPage.page * PAGE + 1)}–{formatWhole(rowPage.page * PAGE + rowPage.rows.length)} of{" "}
            {formatCount(matches.length, "row")}
          </span>
          <button
            type="button"
            className="small"
            disabled={rowPage.page === rowPage.pages - 1}
            onClick={() => turn(rowPage.page + 1)}
          >
            Next
          </button>
        </div>
      )}
    </>
  );
}

function getHeaderClass(column: RowColumn): string | undefined {
  if (column === "probability") return "number chance";
  return NUMBERS.has(column) ? "number" : undefined;
}

function getRowClass(row: Row, at: number | null): string | undefined {
  const names = [row.right === false && "wrong", row.number === at && "selected"].filter(Boolean);
  return names.join(" ") || undefined;
}

/** Reverse the order on a second click; a new column starts with the largest number or the first word. */
function turnOrder(order: RowOrder, column: RowColumn): RowOrder {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: column === "probability" || column === "surprise" };
}
