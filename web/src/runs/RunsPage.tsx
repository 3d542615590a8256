/** Runs over data sets: what is in the folder, also while it is written, and what each of them says. */

import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/context";
import { OneRun } from "./OneRun";
import { RunList } from "./RunList";
import { useRuns } from "./useRuns";
import "../data/data.css";
import "../results/results.css";
import "../shell/parts.css";
import "./runs.css";

export function RunsPage() {
  const { state, update } = useServer();
  const { value, fault, again } = useRuns();
  const runs = value?.runs ?? [];
  const named = (id: string | null) => runs.find((each) => each.id === id) ?? null;
  const open = named(state.run);
  const other = named(state.against);
  const gone = [state.run, state.against].find((id) => id !== null && named(id) === null);
  if (value === null) {
    return (
      <div className="runs-page">
        <h1>Runs</h1>
        {fault ? <FaultNote fault={fault} onAgain={again} /> : <p className="empty">Looking for runs …</p>}
      </div>
    );
  }
  return (
    <div className="runs-page">
      {fault && <FaultNote fault={fault} onAgain={again} />}
      {gone !== undefined && (
        <p className="note" role="status">
          There is no run “{gone}” in the folder of this server.
        </p>
      )}
      {open && gone === undefined ? (
        <OneRun key={`${open.id} ${other?.id ?? ""}`} run={open} other={other} />
      ) : (
        <RunList
          found={value}
          onOpen={(run, against) => update({ run, against, tab: "", found: "" }, "push")}
        />
      )}
    </div>
  );
}
