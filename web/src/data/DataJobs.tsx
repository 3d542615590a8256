/** What a data set says as a whole; both are long work, begun by a button. */

import type { DataSet, Habits, Leaning } from "../api/types";
import { useLoaded } from "../explain/useLoaded";
import { FaultNote } from "../shell/FaultNote";
import { JobLine } from "../shell/JobLine";
import { MethodChoice } from "../shell/MethodChoice";
import { useServer } from "../shell/context";
import { usualMethod } from "../shell/resolved";
import { count } from "../shell/figures";
import type { Working } from "../shell/useAsked";
import { useKeptJob } from "../shell/useKeptJob";
import { ClassWords } from "./ClassWords";
import { HeadHabits } from "./HeadHabits";
import { jobKey } from "./jobs";
import { Limit, limitOf } from "./Limit";
import { MOST_TAKEN, USUALLY_TAKEN } from "./limits";
import type { Row } from "./rows";
import { useRows } from "./useRows";

interface Props {
  readonly set: DataSet;
  readonly model: string;
}

export function WordsJob({ set, model, rows }: Props & { readonly rows: readonly Row[] }) {
  const { source, session, state, update } = useServer();
  const [{ take, least }, ask] = useRows();
  const limit = limitOf(take, set.rows, USUALLY_TAKEN, MOST_TAKEN);
  // The usual method depends on the model, which is asked nothing before that is known.
  const isKnown = useLoaded(session.models.find(({ id }) => id === model));
  const method = state.methods[0] ?? usualMethod(model, session);
  const job = useKeptJob<Leaning>(jobKey("words", session, set, model, limit, method, least));
  const begin = (): void =>
    job.run((asking) => source.leaning(set.id, { model, method, limit, least }, asking));
  return (
    <>
      <div className="controls">
        <MethodChoice
          value={method}
          onChange={(name) => update({ methods: [name, ...state.methods.slice(1)] }, "replace")}
        />
        <Limit
          label="Rows to explain"
          rows={set.rows}
          value={limit}
          most={MOST_TAKEN}
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
        {isKnown && <Begin job={job} words="Find the words" onBegin={begin} />}
      </div>
      <Outcome
        job={job}
        onAgain={begin}
        empty={`Explains ${count(limit, "example")} and averages each word's share of the scores, class by class.`}
      />
      {job.value && <ClassWords leaning={job.value} rows={rows} set={set} model={model} />}
    </>
  );
}

export function HabitsJob({ set, model }: Props) {
  const { source, session } = useServer();
  const [{ take }, ask] = useRows();
  const limit = limitOf(take, set.rows, USUALLY_TAKEN, MOST_TAKEN);
  const job = useKeptJob<Habits>(jobKey("habits", session, set, model, limit));
  const begin = (): void => job.run((asking) => source.habits(set.id, { model, limit }, asking));
  return (
    <>
      <div className="controls">
        <Limit
          label="Rows to look at"
          rows={set.rows}
          value={limit}
          most={MOST_TAKEN}
          drawn
          onChange={(next) => ask({ take: next })}
        />
        <Begin job={job} words="Look at the heads" onBegin={begin} />
      </div>
      <Outcome
        job={job}
        onAgain={begin}
        empty={`Runs ${count(limit, "example")} and adds up where every head's attention goes: special tokens, neighbours, the token itself.`}
      />
      {job.value && <HeadHabits habits={job.value} model={model} />}
    </>
  );
}

interface BeginProps<T> {
  readonly job: Working<T>;
  readonly words: string;
  readonly onBegin: () => void;
}

function Begin<T>({ job, words, onBegin }: BeginProps<T>) {
  if (job.value !== null) return null;
  return (
    <button type="button" className="primary" disabled={job.running} onClick={onBegin}>
      {words}
    </button>
  );
}

interface OutcomeProps<T> {
  readonly job: Working<T>;
  readonly empty: string;
  readonly onAgain: () => void;
}

function Outcome<T>({ job, empty, onAgain }: OutcomeProps<T>) {
  if (job.running) return <JobLine job={job.job} onCancel={job.cancel} />;
  if (job.fault) return <FaultNote fault={job.fault} onAgain={onAgain} />;
  return job.value === null ? <p className="empty">{empty}</p> : null;
}
