/** List of the runs in the folder; a click opens one. */

import type { Runs, RunSummary } from "../api/types";
import { formatCount, formatWhole } from "../shell/numberFormat";
import { NoRunsNote } from "./NoRunsNote";
import { formatAgo, formatNames, formatProgress, formatState } from "./runFormat";

interface Props {
  readonly list: Runs;
  readonly onOpen: (run: string) => void;
}

/** Show the runs as a table. */
export function RunList({ list, onOpen }: Props) {
  const { runs } = list;
  if (runs.length === 0) return <NoRunsNote folder={list.folder} />;
  return (
    <>
      <header className="runs-head">
        <h1>Runs</h1>
        <p className="dim">
          {formatCount(runs.length, "run")} in <code>{list.folder}</code>
          {list.left_out > 0 && `, and ${formatWhole(list.left_out)} more that are not listed`}
        </p>
      </header>
      {/* Scrollable areas must be reachable by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className="table rows" role="region" aria-label="Runs" tabIndex={0}>
        <table>
          <caption className="unseen">Stored runs, the latest first</caption>
          <thead>
            <tr>
              {COLUMNS.map(([name, kind]) => (
                <th key={name} scope="col" className={kind}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => (
              <RunListRow key={run.id} run={run} onOpen={() => onOpen(run.id)} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

const COLUMNS: readonly (readonly [string, string])[] = [
  ["name", ""],
  ["model", "wide"],
  ["data", "wide"],
  ["methods", "wide"],
  ["metrics", "wide"],
  ["examples", "number"],
  ["failed", "number"],
  ["bad rows", "number wide"],
  ["state", ""],
  ["last written", "wide"],
];

interface RunListRowProps {
  readonly run: RunSummary;
  readonly onOpen: () => void;
}

function RunListRow({ run, onOpen }: RunListRowProps) {
  const damaged = run.state === "damaged";
  return (
    <>
      <tr className={damaged ? "wrong" : undefined}>
        <td className="name">
          <button type="button" className="plain link" onClick={onOpen}>
            {run.name}
          </button>
        </td>
        <td className="wide">{damaged ? "–" : run.model}</td>
        <td className="wide">{damaged ? "–" : run.data}</td>
        <td className="wide" title={run.methods.join(", ")}>
          {formatNames(run.methods)}
        </td>
        <td className="wide" title={run.metrics.join(", ")}>
          {formatNames(run.metrics)}
        </td>
        <td className="number">{damaged ? "–" : <RunProgress run={run} />}</td>
        <td className="number">{damaged ? "–" : formatWhole(run.failed)}</td>
        <td className="number wide">{damaged ? "–" : formatWhole(run.bad)}</td>
        <td className={`state ${formatState(run)}`}>{formatState(run)}</td>
        <td className="wide" title={run.changed ?? undefined}>
          {formatAgo(run.quiet)}
        </td>
      </tr>
      {damaged && (
        <tr className="wrong">
          <td className="problem dim" colSpan={COLUMNS.length}>
            {run.problem}
          </td>
        </tr>
      )}
    </>
  );
}

function RunProgress({ run }: { readonly run: RunSummary }) {
  const { done, total } = run;
  return (
    <>
      {total !== null && done < total && (
        <progress value={done} max={total} aria-label={`Progress of ${run.name}`} />
      )}{" "}
      {formatProgress(run)}
    </>
  );
}
