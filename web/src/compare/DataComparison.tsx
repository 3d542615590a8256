/** Two models over a data set: chosen, run as a job, and shown. */

import type { Comparison } from "../api/types";
import { unreadSet } from "../data/columns";
import { jobKey } from "../data/jobs";
import { Limit, limitOf } from "../data/Limit";
import { MOST_TAKEN, USUALLY_TAKEN } from "../data/limits";
import { useRows } from "../data/useRows";
import { useLoaded } from "../explain/useLoaded";
import { FaultNote } from "../shell/FaultNote";
import { JobLine } from "../shell/JobLine";
import { MethodChoice } from "../shell/MethodChoice";
import { useServer } from "../shell/context";
import { usualMethod } from "../shell/resolved";
import { count, percent } from "../shell/figures";
import { useDataSets } from "../shell/useDataSets";
import { useKeptJob } from "../shell/useKeptJob";
import { useSettled } from "../shell/useSettled";
import type { DataSet } from "../api/types";
import { ComparisonView } from "./ComparisonView";
import type { Pair } from "./models";

interface Props {
  readonly models: Pair;
  readonly names: readonly [string, string];
}

export function OverData({ models, names }: Props) {
  const page = useServer();
  const { state, update } = page;
  const sets = useDataSets(page).sets.filter((each) => unreadSet(each) === null); // columns are chosen on the data page
  const set = sets.find(({ id }) => id === state.data) ?? sets[0];
  if (!set) {
    return (
      <div className="empty large">
        <h2>No data set yet</h2>
        <p>
          One input is an anecdote. Bring a file with texts, and both models are compared over all of them.
        </p>
        <button type="button" onClick={() => update({ page: "data" }, "push")}>
          Bring a data set
        </button>
      </div>
    );
  }
  return <OneSet key={set.id} set={set} sets={sets} models={models} names={names} />;
}

interface OneProps extends Props {
  readonly set: DataSet;
  readonly sets: readonly DataSet[];
}

function OneSet({ set, sets, models, names }: OneProps) {
  const { source, session, state, update } = useServer();
  const [{ take }, ask] = useRows();
  const limit = limitOf(take, set.rows, USUALLY_TAKEN, MOST_TAKEN);
  // The usual method depends on the model, which is asked nothing before that is known.
  const isKnown = useLoaded(session.models.find(({ id }) => id === models.b));
  const method = state.methods[0] ?? usualMethod(models.b, session);
  const coverage = state.coverage ?? 0.5;
  const specials = state.specials === "show"; // the same edges count as on one input
  useSettled({ data: set.id });
  const job = useKeptJob<Comparison>(
    jobKey("compare", session, set, models, limit, method, coverage, specials),
  );
  const begin = (): void =>
    job.run((asking) =>
      source.compareData({ ...models, data: set.id, limit, coverage, specials, method, seed: 0 }, asking),
    );
  return (
    <>
      <div className="controls">
        <label>
          Data set{" "}
          <select value={set.id} onChange={(event) => update({ data: event.target.value }, "push")}>
            {sets.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <Limit
          label="Inputs"
          rows={set.rows}
          value={limit}
          most={MOST_TAKEN}
          drawn
          onChange={(next) => ask({ take: next })}
        />
        <MethodChoice
          value={method}
          onChange={(name) => update({ methods: [name, ...state.methods.slice(1)] }, "replace")}
        />
        <label>
          Coverage{" "}
          <select
            value={coverage}
            onChange={(event) => update({ coverage: Number(event.target.value) }, "replace")}
          >
            {[...new Set([0.25, 0.5, 0.8, coverage])].sort().map((share) => (
              <option key={share} value={share}>
                {percent(share)}
              </option>
            ))}
          </select>
        </label>
        <label>
          Edges to special tokens{" "}
          <select
            value={specials ? "count" : "not"}
            onChange={({ target }) =>
              update({ specials: target.value === "count" ? "show" : "gutter" }, "replace")
            }
          >
            <option value="not">do not count</option>
            <option value="count">count</option>
          </select>
        </label>
        {job.value === null && isKnown && (
          <button type="button" className="primary" disabled={job.running} onClick={begin}>
            Compare over {count(limit, "input")}
          </button>
        )}
      </div>
      {job.running && <JobLine job={job.job} onCancel={job.cancel} />}
      {job.fault && <FaultNote fault={job.fault} onAgain={begin} />}
      {job.value ? (
        <ComparisonView comparison={job.value} names={names} />
      ) : (
        !job.running &&
        !job.fault && (
          <p className="empty">
            Runs both models on {count(limit, "input")} and gives every head and layer a mean divergence with
            its 95% interval, the overlap of the flows beside that of random edges, and how far the
            words&apos; scores agree.
          </p>
        )
      )}
    </>
  );
}
