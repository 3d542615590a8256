/** What a data set says as a whole; both are long work, begun by a button. */

import { useState } from "react";

import type { DataSet, Habits, Leaning } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { JobLine } from "../shell/JobLine";
import { MethodChoice } from "../shell/MethodChoice";
import { useServer } from "../shell/context";
import { count } from "../shell/figures";
import type { Working } from "../shell/useAsked";
import { useKeptJob } from "../shell/useKeptJob";
import { ClassWords } from "./ClassWords";
import { HeadHabits } from "./HeadHabits";
import { Limit, useLimit } from "./Limit";
import type { Row } from "./rows";

interface Props {
  readonly set: DataSet;
  readonly model: string;
}

export function WordsJob({ set, model, rows }: Props & { readonly rows: readonly Row[] }) {
  const { source, session, state } = useServer();
  const [limit, setLimit] = useLimit(set.rows, 100);
  const [method, setMethod] = useState(state.methods[0] ?? "attcat");
  const [least, setLeast] = useState(3);
  const job = useKeptJob<Leaning>(`words ${session.started} ${set.id} ${model} ${limit} ${method} ${least}`);
  const begin = (): void =>
    job.run((asking) => source.leaning(set.id, { model, method, limit, least }, asking));
  return (
    <>
      <div className="controls">
        <MethodChoice value={method} onChange={setMethod} />
        <Limit rows={set.rows} value={limit} most={2000} onChange={setLimit} />
        <label>
          In at least{" "}
          <input
            type="number"
            min={1}
            max={1000}
            value={least}
            onChange={(event) =>
              setLeast(Math.min(1000, Math.max(1, Math.round(event.target.valueAsNumber) || 1)))
            }
          />{" "}
          examples
        </label>
        <Begin job={job} words="Find the words" onBegin={begin} />
      </div>
      <Outcome
        job={job}
        onAgain={begin}
        empty={`Explains ${count(limit, "example")} and averages each word's share of the scores, class by class.`}
      />
      {job.value && <ClassWords leaning={job.value} rows={rows} />}
    </>
  );
}

export function HabitsJob({ set, model }: Props) {
  const { source, session } = useServer();
  const [limit, setLimit] = useLimit(set.rows, 100);
  const job = useKeptJob<Habits>(`habits ${session.started} ${set.id} ${model} ${limit}`);
  const begin = (): void => job.run((asking) => source.habits(set.id, { model, limit }, asking));
  return (
    <>
      <div className="controls">
        <Limit rows={set.rows} value={limit} most={2000} onChange={setLimit} />
        <Begin job={job} words="Look at the heads" onBegin={begin} />
      </div>
      <Outcome
        job={job}
        onAgain={begin}
        empty={`Runs ${count(limit, "example")} and adds up where every head's attention goes: special tokens, neighbours, the token itself.`}
      />
      {job.value && <HeadHabits habits={job.value} />}
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
