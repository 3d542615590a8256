/** The data set page: bring a file, see what a model makes of it, and pick a row to explain. */

import { type ReactNode, useEffect, useState } from "react";

import type { DataSet, Predicted } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { JobLine } from "../shell/JobLine";
import { ModelChoice } from "../shell/ModelChoice";
import { Tabs } from "../shell/Tabs";
import { useServer } from "../shell/context";
import { count } from "../shell/figures";
import { useDataSets } from "../shell/useDataSets";
import { useKeptJob } from "../shell/useKeptJob";
import { useSettled } from "../shell/useSettled";
import type { Asking } from "../source/source";
import { DataList } from "./DataList";
import { HabitsJob, WordsJob } from "./aggregates";
import { ColumnChooser } from "./ColumnChooser";
import { Columns } from "./Columns";
import { type ColumnsAsked, type Unread, unreadSet } from "./columns";
import { jobKey, predictKey } from "./jobs";
import { Limit, limitOf } from "./Limit";
import { MOST_PREDICTED, USUALLY_PREDICTED } from "./limits";
import { Predictions } from "./Predictions";
import { useRows } from "./useRows";
import "../shell/parts.css";
import "./data.css";

const PARTS: Readonly<Record<string, string>> = {
  "": "Predictions",
  words: "Words of each class",
  heads: "What heads attend to",
};

export function DataPage() {
  const page = useServer();
  const { state, update } = page;
  const { sets, put } = useDataSets(page);
  const chosen = sets.find(({ id }) => id === state.data) ?? (state.data === null ? (sets[0] ?? null) : null);
  useSettled({ model: state.model || (page.session.models[0]?.id ?? ""), data: chosen?.id ?? state.data });
  const [unread, setUnread] = useState<{ readonly file: File; readonly unread: Unread } | null>(null);
  const choose = (id: string): void => {
    setUnread(null);
    update({ data: id, rows: "" }, "push");
  };
  const bring = (brought: DataSet): void => {
    put(brought);
    choose(brought.id);
    page.announce(`${brought.name} is here, with ${count(brought.rows, "row")}.`);
  };
  return (
    <div className="data-page with-list">
      <DataList
        sets={sets}
        chosen={unread === null ? (chosen?.id ?? null) : null}
        onChoose={choose}
        onBrought={bring}
        onUnread={(file, found) => setUnread({ file, unread: found })}
      />
      {unread !== null ? (
        <ColumnChooser
          key={unread.unread.name}
          unread={unread.unread}
          read={(columns, asking) => page.source.upload(unread.file, asking, columns)}
          onRead={bring}
        />
      ) : chosen ? (
        <SetOrChoice key={jobKey("", page.session, chosen)} set={chosen} onRead={put} />
      ) : (
        <Nothing gone={state.data} />
      )}
    </div>
  );
}

function Nothing({ gone }: { readonly gone: string | null }) {
  return (
    <div className="empty large">
      {gone === null ? <h1>No data set yet</h1> : <h1>That data set is not here</h1>}
      {gone !== null && (
        <p>The link names one that this server does not have. It may have been started anew since.</p>
      )}
      <p>
        Bring a file with texts, and labels if there are any: the page predicts every row, sorts them by how
        much the model is surprised, and finds the words and heads that matter.
      </p>
      <p>
        Or name it at the start: <code>whence app --data reviews.tsv</code>
      </p>
    </div>
  );
}

interface OneProps {
  readonly set: DataSet;
  readonly onRead: (set: DataSet) => void;
}

/** The data set, or the choice of its columns where they are to be chosen first. */
function SetOrChoice({ set, onRead }: OneProps) {
  const { source } = useServer();
  const unread = unreadSet(set);
  if (unread === null) return <OneSet set={set} onRead={onRead} />;
  const read = (columns: ColumnsAsked, asking: Asking): Promise<DataSet> =>
    source.columns(set.id, columns, asking);
  return <ColumnChooser unread={unread} read={read} onRead={onRead} />;
}

function OneSet({ set, onRead }: OneProps) {
  const { source, session, state, update } = useServer();
  const model = state.model || (session.models[0]?.id ?? "");
  const [asked, ask] = useRows();
  const limit = limitOf(asked.predict, set.rows, USUALLY_PREDICTED, MOST_PREDICTED);
  const job = useKeptJob<Predicted>(predictKey(session, set, model, limit));
  const { run, value, running, fault } = job;
  const begin = (): void => run((asking) => source.predict(set.id, { model, limit }, asking));
  const untouched = value === null && !running && fault === null;
  // A page of nothing but a button helps nobody: the first look is on the house, and can be called off.
  useEffect(() => {
    if (untouched) begin();
  }, [set.id, model, limit]); // eslint-disable-line react-hooks/exhaustive-deps
  return (
    <div className="one-set">
      <header>
        <h1>{set.name}</h1>
        <Columns set={set} onRead={onRead} />
        <div className="controls">
          <ModelChoice label="Model" value={model} onChange={(id) => update({ model: id }, "push")} />
          <Limit
            label="Rows to predict"
            rows={set.rows}
            value={limit}
            most={MOST_PREDICTED}
            onChange={(predict) => ask({ predict }, "push")}
          />
          {!running && value === null && (
            <button type="button" onClick={begin}>
              Predict {count(limit, "row")}
            </button>
          )}
        </div>
      </header>
      {running && <JobLine job={job.job} onCancel={job.cancel} />}
      {fault && <FaultNote fault={fault} onAgain={begin} />}
      <Tabs
        label="Parts of the page"
        names={PARTS}
        value={state.tab in PARTS ? state.tab : ""}
        onChange={(tab) => update({ tab }, "push")}
      >
        {(tab): ReactNode => {
          if (tab === "words") return <WordsJob set={set} model={model} rows={value?.rows ?? []} />;
          if (tab === "heads") return <HabitsJob set={set} model={model} />;
          if (value) return <Predictions predicted={value} set={set} model={model} />;
          return !running && !fault && <p className="empty">Not predicted yet.</p>;
        }}
      </Tabs>
    </div>
  );
}
