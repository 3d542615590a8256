/** View of one run, with facts and tabs for report and rows. */

import type { ReactNode } from "react";

import type { RunSummary } from "../api/types";
import { Tabs } from "../shell/Tabs";
import { useServer } from "../shell/pageContext";
import { formatCount } from "../shell/numberFormat";
import { RunReport } from "./RunReport";
import { RunRowsView } from "./RunRowsView";
import { formatAgo, formatProgress, formatState } from "./runFormat";

interface Props {
  readonly run: RunSummary;
}

const PARTS: Readonly<Record<string, string>> = { "": "Report", rows: "Rows" };

/** Show the facts of a run, and the tab that is open. */
export function RunView({ run }: Props) {
  const { state, update } = useServer();
  const back = (): void => update({ run: null, tab: "", found: "" }, "push");
  return (
    <div className="one-run">
      <header className="runs-head">
        <button type="button" className="small" onClick={back}>
          All runs
        </button>
        <h1>{run.name}</h1>
        <RunFacts run={run} />
      </header>
      {run.state === "damaged" ? (
        <p className="fault" role="alert">
          {run.problem}
        </p>
      ) : (
        <Tabs
          label="Parts of the run"
          names={PARTS}
          value={state.tab in PARTS ? state.tab : ""}
          onChange={(tab) => update({ tab }, "push")}
        >
          {(tab): ReactNode => (tab === "rows" ? <RunRowsView run={run} /> : <RunReport run={run} />)}
        </Tabs>
      )}
    </div>
  );
}

function RunFacts({ run }: { readonly run: RunSummary }) {
  if (run.state === "damaged") return null;
  const sentences = [
    `${run.model} on ${run.data}`,
    `${formatProgress(run)} ${run.total === null && run.done === 1 ? "example" : "examples"}`,
    formatCount(run.methods.length, "method"),
    formatCount(run.metrics.length, "metric"),
    ...(run.failed > 0 ? [`${run.failed} failed`] : []),
    ...(run.bad > 0 ? [formatCount(run.bad, "bad row")] : []),
    `${formatState(run)}, last written ${formatAgo(run.quiet)}`,
  ];
  return <p className="dim">{sentences.join(" · ")}</p>;
}
