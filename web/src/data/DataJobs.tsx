/** Jobs over a whole data set, started by a button: words by class, attention patterns of heads. */

import type { DataSet, AttentionPatterns, ClassWordScores } from "../api/types";
import { useModelLoad } from "../explain/useModelLoad";
import { FaultNote } from "../shell/FaultNote";
import { JobProgress } from "../shell/JobProgress";
import { MethodChoice } from "../shell/MethodChoice";
import { useServer } from "../shell/pageContext";
import { getDefaultMethod } from "../shell/stateDefaults";
import { formatCount } from "../shell/numberFormat";
import type { JobState } from "../shell/useRequest";
import { useJobCache } from "../shell/useJobCache";
import { ClassWords } from "./ClassWords";
import { HeadPatterns } from "./HeadPatterns";
import { buildJobKey } from "./jobKeys";
import { RowLimit, resolveLimit } from "./RowLimit";
import { MAX_JOB_ROWS, DEFAULT_JOB_ROWS } from "./jobLimits";
import type { Row } from "./rows";
import { useRowQuery } from "./useRowQuery";

interface Props {
  readonly set: DataSet;
  readonly model: string;
}

/** Controls and result of the job that averages word scores by class. */
export function ClassWordsJob({ set, model, rows }: Props & { readonly rows: readonly Row[] }) {
  const { source, session, state, update } = useServer();
  const [{ take, least }, ask] = useRowQuery();
  const limit = resolveLimit(take, set.rows, DEFAULT_JOB_ROWS, MAX_JOB_ROWS);
  // The default method depends on the model, so no request is sent before it is loaded.
  const isKnown = useModelLoad(session.models.find(({ id }) => id === model));
  const method = state.methods[0] ?? getDefaultMethod(model, session);
  const job = useJobCache<ClassWordScores>(buildJobKey("words", session, set, model, limit, method, least));
  const begin = (): void =>
    job.run((options) => source.classWords(set.id, { model, method, limit, least }, options));
  return (
    <>
      <div className="controls">
        <MethodChoice
          value={method}
          onChange={(name) => update({ methods: [name, ...state.methods.slice(1)] }, "replace")}
        />
        <RowLimit
          label="Rows to explain"
          rows={set.rows}
          value={limit}
          most={MAX_JOB_ROWS}
          drawn
          onChange={(next) => ask({ take: next })}
        />
        <label>
          In at least{" "}
          <input
            type="number"
            min={1}
            max={1000}
            value={least}
            onChange={(event) =>
              ask({ least: Math.min(1000, Math.max(1, Math.round(event.target.valueAsNumber) || 1)) })
            }
          />{" "}
          examples
        </label>
        {isKnown && <StartButton job={job} words="Find the words" onBegin={begin} />}
      </div>
      <JobOutcome
        job={job}
        onRetry={begin}
        empty={`Explains ${formatCount(limit, "example")} and averages each word's share of the scores, class by class.`}
      />
      {job.value && <ClassWords scores={job.value} rows={rows} set={set} model={model} />}
    </>
  );
}

/** Controls and result of the job that sums each head's attention by kind of token. */
export function HeadPatternsJob({ set, model }: Props) {
  const { source, session } = useServer();
  const [{ take }, ask] = useRowQuery();
  const limit = resolveLimit(take, set.rows, DEFAULT_JOB_ROWS, MAX_JOB_ROWS);
  const job = useJobCache<AttentionPatterns>(buildJobKey("habits", session, set, model, limit));
  const begin = (): void => job.run((options) => source.headPatterns(set.id, { model, limit }, options));
  return (
    <>
      <div className="controls">
        <RowLimit
          label="Rows to look at"
          rows={set.rows}
          value={limit}
          most={MAX_JOB_ROWS}
          drawn
          onChange={(next) => ask({ take: next })}
        />
        <StartButton job={job} words="Look at the heads" onBegin={begin} />
      </div>
      <JobOutcome
        job={job}
        onRetry={begin}
        empty={`Runs ${formatCount(limit, "example")} and adds up where every head's attention goes: special tokens, neighbours, the token itself.`}
      />
      {job.value && <HeadPatterns patterns={job.value} model={model} />}
    </>
  );
}

interface StartButtonProps<T> {
  readonly job: JobState<T>;
  readonly words: string;
  readonly onBegin: () => void;
}

function StartButton<T>({ job, words, onBegin }: StartButtonProps<T>) {
  if (job.value !== null) return null;
  return (
    <button type="button" className="primary" disabled={job.running} onClick={onBegin}>
      {words}
    </button>
  );
}

interface JobOutcomeProps<T> {
  readonly job: JobState<T>;
  readonly empty: string;
  readonly onRetry: () => void;
}

function JobOutcome<T>({ job, empty, onRetry }: JobOutcomeProps<T>) {
  if (job.running) return <JobProgress job={job.job} onCancel={job.cancel} />;
  if (job.fault) return <FaultNote fault={job.fault} onRetry={onRetry} />;
  return job.value === null ? <p className="empty">{empty}</p> : null;
}
