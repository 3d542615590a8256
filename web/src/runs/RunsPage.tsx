/** Runs page: polled list of the runs in the folder, or the view of the run that is open. */

import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/pageContext";
import { RunView } from "./RunView";
import { RunList } from "./RunList";
import { useRuns } from "./useRuns";
import "../data/data.css";
import "../results/results.css";
import "../shell/parts.css";
import "./runs.css";

/** Show the list of runs, or the run that is open. */
export function RunsPage() {
  const { state, update } = useServer();
  const { value, fault, retry } = useRuns();
  const runs = value?.runs ?? [];
  const findRun = (id: string | null) => runs.find((each) => each.id === id) ?? null;
  const open = findRun(state.run);
  const gone = state.run !== null && open === null;
  if (value === null) {
    return (
      <div className="runs-page">
        <h1>Runs</h1>
        {fault ? <FaultNote fault={fault} onRetry={retry} /> : <p className="empty">Looking for runs …</p>}
      </div>
    );
  }
  return (
    <div className="runs-page">
      {fault && <FaultNote fault={fault} onRetry={retry} />}
      {gone && (
        <p className="note" role="status">
          There is no run “{state.run}” in the folder of this server.
        </p>
      )}
      {open ? (
        <RunView key={open.id} run={open} />
      ) : (
        <RunList list={value} onOpen={(run) => update({ run, tab: "", found: "" }, "push")} />
      )}
    </div>
  );
}
