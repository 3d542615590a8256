/** Rows of a run, filtered by the server, with one row open. */

import type { RunSummary } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/pageContext";
import { useRequest } from "../shell/useRequest";
import { RunExampleView } from "./RunExampleView";
import { RunFilters } from "./RunFilters";
import { RunRowTable } from "./RunRowTable";
import { type RunRowQuery, formatServerQuery, parseRunRowQuery, formatRunRowQuery } from "./runRowQuery";

/** Show filters, rows and the row that is open. */
export function RunRowsView({ run }: { readonly run: RunSummary }) {
  const { source, state, update } = useServer();
  const query = parseRunRowQuery(state.found);
  const question = formatServerQuery(query);
  const { value, fault, pending, retry } = useRequest(`${run.id} ${run.version} ${question}`, (options) =>
    source.runRows(run.id, question, options),
  );
  const ask = (change: Partial<RunRowQuery>, mode: "push" | "replace" = "push"): void =>
    update({ found: formatRunRowQuery({ ...query, ...change }) }, mode);
  return (
    <>
      <RunFilters run={run} query={query} count={value?.found ?? null} onAsk={ask} />
      {query.at !== null && (
        <RunExampleView
          run={run}
          row={query.at}
          method={query.by}
          onMethod={(by) => ask({ by }, "replace")}
          onClose={() => ask({ at: null, by: null })}
        />
      )}
      {fault && <FaultNote fault={fault} onRetry={retry} />}
      {value?.problems.map((problem) => (
        <p key={problem} className="note">
          {problem}
        </p>
      ))}
      {value === null && pending && <p className="empty">Reading rows …</p>}
      {value && !fault && (
        <RunRowTable
          result={value}
          query={query}
          pending={pending}
          onOpen={(row) => ask({ at: row.row, by: row.method })}
          onPage={(page) => ask({ page })}
        />
      )}
    </>
  );
}
