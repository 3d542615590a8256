/** One run, or two beside each other: the report, and the rows. */

import type { ReactNode } from "react";

import type { StoredRun } from "../api/types";
import { Tabs } from "../shell/Tabs";
import { useServer } from "../shell/context";
import { count } from "../shell/figures";
import { RunReport } from "./RunReport";
import { RunRowsPart } from "./RunRowsPart";
import { agoOf, progressOf, stateOf } from "./told";

interface Props {
  readonly run: StoredRun;
  readonly other: StoredRun | null;
}

const PARTS: Readonly<Record<string, string>> = { "": "Report", rows: "Rows" };

export function OneRun({ run, other }: Props) {
  const { state, update } = useServer();
  const back = (): void => update({ run: null, against: null, tab: "", found: "" }, "push");
  return (
    <div className="one-run">
      <header className="runs-head">
        <button type="button" className="small" onClick={back}>
          All runs
        </button>
        <h1>{other === null ? run.name : `${run.name} and ${other.name}`}</h1>
        {[run, ...(other === null ? [] : [other])].map((each) => (
          <Facts key={each.id} run={each} />
        ))}
      </header>
      {run.state === "damaged" || other?.state === "damaged" ? (
        <p className="fault" role="alert">
          {run.problem ?? other?.problem}
        </p>
      ) : other !== null ? (
        <RunReport run={run} other={other} />
      ) : (
        <Tabs
          label="Parts of the run"
          names={PARTS}
          value={state.tab in PARTS ? state.tab : ""}
          onChange={(tab) => update({ tab }, "push")}
        >
          {(tab): ReactNode =>
            tab === "rows" ? <RunRowsPart run={run} /> : <RunReport run={run} other={null} />
          }
        </Tabs>
      )}
    </div>
  );
}

function Facts({ run }: { readonly run: StoredRun }) {
  if (run.state === "damaged") return null;
  const said = [
    `${run.model} on ${run.data}`,
    `${progressOf(run)} ${run.total === null && run.done === 1 ? "example" : "examples"}`,
    count(run.methods.length, "method"),
    count(run.metrics.length, "metric"),
    ...(run.failed > 0 ? [`${run.failed} failed`] : []),
    ...(run.bad > 0 ? [count(run.bad, "bad row")] : []),
    `${stateOf(run)}, last written ${agoOf(run.quiet)}`,
  ];
  return <p className="dim">{said.join(" · ")}</p>;
}
