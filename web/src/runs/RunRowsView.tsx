/** The rows of a run: chosen by the server, a page at a time; one of them word by word. */

import type { StoredRun } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/context";
import { useAsked } from "../shell/useAsked";
import { RunExampleView } from "./RunExampleView";
import { RunFilters } from "./RunFilters";
import { RunRowTable } from "./RunRowTable";
import { type Asked, questionOf, readFound, writeFound } from "./rowlink";

export function RunRowsPart({ run }: { readonly run: StoredRun }) {
  const { source, state, update } = useServer();
  const asked = readFound(state.found);
  const question = questionOf(asked);
  const { value, fault, pending, again } = useAsked(`${run.id} ${run.version} ${question}`, (asking) =>
    source.runRows(run.id, question, asking),
  );
  const ask = (change: Partial<Asked>, mode: "push" | "replace" = "push"): void =>
    update({ found: writeFound({ ...asked, ...change }) }, mode);
  return (
    <>
      <RunFilters run={run} asked={asked} found={value?.found ?? null} onAsk={ask} />
      {asked.at !== null && (
        <RunExampleView
          run={run}
          row={asked.at}
          method={asked.by}
          onMethod={(by) => ask({ by }, "replace")}
          onClose={() => ask({ at: null, by: null })}
        />
      )}
      {fault && <FaultNote fault={fault} onAgain={again} />}
      {value?.problems.map((problem) => (
        <p key={problem} className="note">
          {problem}
        </p>
      ))}
      {value === null && pending && <p className="empty">Reading rows …</p>}
      {value && !fault && (
        <RunRowTable
          found={value}
          asked={asked}
          pending={pending}
          onOpen={(row) => ask({ at: row.row, by: row.method })}
          onPage={(page) => ask({ page })}
        />
      )}
    </>
  );
}
