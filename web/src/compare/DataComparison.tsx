/** Comparison of two models over a data set: choice of the data, job, result. */

import type { Comparison } from "../api/types";
import { parseUnreadDataSet } from "../data/columnRoles";
import { buildJobKey } from "../data/jobKeys";
import { RowLimit, resolveLimit } from "../data/RowLimit";
import { MAX_JOB_ROWS, DEFAULT_JOB_ROWS } from "../data/jobLimits";
import { useRowQuery } from "../data/useRowQuery";
import { useModelLoad } from "../explain/useModelLoad";
import { FaultNote } from "../shell/FaultNote";
import { JobProgress } from "../shell/JobProgress";
import { MethodChoice } from "../shell/MethodChoice";
import { useServer } from "../shell/pageContext";
import { getDefaultMethod } from "../shell/stateDefaults";
import { formatCount, formatPercent } from "../shell/numberFormat";
import { useDataSets } from "../shell/useDataSets";
import { useJobCache } from "../shell/useJobCache";
import { useLinkDefaults } from "../shell/useLinkDefaults";
import type { DataSet } from "../api/types";
import { ComparisonResult } from "./ComparisonResult";
import type { ModelPair } from "./modelPair";

interface Props {
  readonly models: ModelPair;
  readonly names: readonly [string, string];
}

/** Show the choice of a data set and its comparison. */
export function DataComparison({ models, names }: Props) {
  const page = useServer();
  const { state, update } = page;
  const sets = useDataSets(page).sets.filter((each) => parseUnreadDataSet(each) === null); // the data page has the column chooser
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
  return <DataSetComparison key={set.id} set={set} sets={sets} models={models} names={names} />;
}

interface DataSetComparisonProps extends Props {
  readonly set: DataSet;
  readonly sets: readonly DataSet[];
}

function DataSetComparison({ set, sets, models, names }: DataSetComparisonProps) {
  const { source, session, state, update } = useServer();
  const [{ take }, ask] = useRowQuery();
  const limit = resolveLimit(take, set.rows, DEFAULT_JOB_ROWS, MAX_JOB_ROWS);
  // The default method depends on the model, so no request is sent before it is loaded.
  const isKnown = useModelLoad(session.models.find(({ id }) => id === models.b));
  const method = state.methods[0] ?? getDefaultMethod(models.b, session);
  const coverage = state.coverage ?? 0.5;
  const specials = state.specials === "show"; // the same edges count as on one input
  useLinkDefaults({ data: set.id });
  const job = useJobCache<Comparison>(
    buildJobKey("compare", session, set, models, limit, method, coverage, specials),
  );
  const begin = (): void =>
    job.run((options) =>
      source.compareData({ ...models, data: set.id, limit, coverage, specials, method, seed: 0 }, options),
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
        <RowLimit
          label="Inputs"
          rows={set.rows}
          value={limit}
          most={MAX_JOB_ROWS}
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
                {formatPercent(share)}
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
            Compare over {formatCount(limit, "input")}
          </button>
        )}
      </div>
      {job.running && <JobProgress job={job.job} onCancel={job.cancel} />}
      {job.fault && <FaultNote fault={job.fault} onRetry={begin} />}
      {job.value ? (
        <ComparisonResult comparison={job.value} names={names} />
      ) : (
        !job.running &&
        !job.fault && (
          <p className="empty">
            Runs both models on {formatCount(limit, "input")} and gives every head and layer a mean divergence
            with its 95% interval, the overlap of the flows beside that of random edges, and how far the
            words&apos; scores agree.
          </p>
        )
      )}
    </>
  );
}
