/** A page of rows. */

import type { RunRow, RunRows } from "../api/types";
import { count, grouped, percent, plain } from "../shell/figures";
import { type Asked, PAGE } from "./rowlink";

interface Props {
  readonly found: RunRows;
  readonly asked: Asked;
  readonly pending: boolean;
  readonly onOpen: (row: RunRow) => void;
  readonly onPage: (page: number) => void;
}

export function RunRowTable({ found, asked, pending, onOpen, onPage }: Props) {
  const { rows, first } = found;
  if (found.found === 0)
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
              {asked.metric !== null && (
                <th scope="col" className="number">
                  {asked.metric}
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={`${row.row} ${row.method}`} className={classOf(row, asked)}>
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
                <td className="number chance">{row.probability === null ? "–" : percent(row.probability)}</td>
                {asked.metric !== null && (
                  <td className="number">{row.value === null ? "–" : plain(row.value)}</td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(found.found > PAGE || first > 0) && (
        <div className="pager" role="group" aria-label="Pages of the table">
          <button
            type="button"
            className="small"
            disabled={asked.page === 0}
            onClick={() => onPage(Math.min(asked.page - 1, Math.ceil(found.found / PAGE) - 1))}
          >
            Previous
          </button>
          <span className="dim" aria-live="polite">
            {rows.length === 0
              ? `beyond the last of ${count(found.found, "row")}`
              : `${grouped(first + 1)}–${grouped(first + rows.length)} of ${count(found.found, "row")}`}
          </span>
          <button
            type="button"
            className="small"
            disabled={first + PAGE >= found.found}
            onClick={() => onPage(asked.page + 1)}
          >
            Next
          </button>
        </div>
      )}
    </>
  );
}

function classOf(row: RunRow, { at, by }: Asked): string | undefined {
  const open = row.row === at && (by === null || row.method === by);
  const names = [row.error !== null && "wrong", open && "selected"].filter(Boolean);
  return names.join(" ") || undefined;
}
