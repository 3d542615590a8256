/** Table of a run's rows, a page at a time: text, method, label, prediction, metric or failure. */

import type { RunRow, RunRows } from "../api/types";
import { formatCount, formatWhole, formatPercent, formatPlain } from "../shell/numberFormat";
import { type RunRowQuery, PAGE_ROWS } from "./runRowQuery";

interface Props {
  readonly result: RunRows;
  readonly query: RunRowQuery;
  readonly pending: boolean;
  readonly onOpen: (row: RunRow) => void;
  readonly onPage: (page: number) => void;
}

/** Show one page of rows. */
export function RunRowTable({ result, query, pending, onOpen, onPage }: Props) {
  const { rows, first } = result;
  if (result.found === 0)
    return <p className="empty">No row answers to this, among those that are written. Take a filter away.</p>;
  return (
    <>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className="table rows" role="region" aria-label="Rows" aria-busy={pending} tabIndex={0}>
        <table>
          <caption className="unseen">Rows of the run</caption>
          <thead>
            <tr>
              <th scope="col" className="number">
                row
              </th>
              <th scope="col">text</th>
              <th scope="col">method</th>
              <th scope="col" className="wide">
                label
              </th>
              <th scope="col" className="wide">
                predicted
              </th>
              <th scope="col" className="number chance">
                probability
              </th>
              {query.metric !== null && (
                <th scope="col" className="number">
                  {query.metric}
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={`${row.row} ${row.method}`} className={getRowClass(row, query)}>
                <td className="number dim">{row.row}</td>
                <td className="text">
                  <button
                    type="button"
                    className="plain"
                    title="See it word by word"
                    onClick={() => onOpen(row)}
                  >
                    {row.text ?? row.id}
                    {row.pair !== null && <span className="pair">{row.pair}</span>}
                  </button>
                  {row.why !== null && (
                    <span className="said mark">
                      {row.error}: {row.why}
                    </span>
                  )}
                </td>
                <td>{row.method}</td>
                <td className="wide">{row.label ?? "–"}</td>
                <td className="wide">{row.predicted ?? "–"}</td>
                <td className="number chance">
                  {row.probability === null ? "–" : formatPercent(row.probability)}
                </td>
                {query.metric !== null && (
                  <td className="number">{row.value === null ? "–" : formatPlain(row.value)}</td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(result.found > PAGE_ROWS || first > 0) && (
        <div className="pager" role="group" aria-label="Pages of the table">
          <button
            type="button"
            className="small"
            disabled={query.page === 0}
            onClick={() => onPage(Math.min(query.page - 1, Math.ceil(result.found / PAGE_ROWS) - 1))}
          >
            Previous
          </button>
          <span className="dim" aria-live="polite">
            {rows.length === 0
              ? `beyond the last of ${formatCount(result.found, "row")}`
              : `${formatWhole(first + 1)}–${formatWhole(first + rows.length)} of ${formatCount(result.found, "row")}`}
          </span>
          <button
            type="button"
            className="small"
            disabled={first + PAGE_ROWS >= result.found}
            onClick={() => onPage(query.page + 1)}
          >
            Next
          </button>
        </div>
      )}
    </>
  );
}

function getRowClass(row: RunRow, { at, by }: RunRowQuery): string | undefined {
  const open = row.row === at && (by === null || row.method === by);
  const names = [row.error !== null && "wrong", open && "selected"].filter(Boolean);
  return names.join(" ") || undefined;
}
