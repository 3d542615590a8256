/** Data page: list of data sets, column choice, predictions, tabs for class words and heads' attention. */

import { type ReactNode, useEffect, useState } from "react";

import type { DataSet, PredictionData } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { JobProgress } from "../shell/JobProgress";
import { ModelChoice } from "../shell/ModelChoice";
import { Tabs } from "../shell/Tabs";
import { useServer } from "../shell/pageContext";
import { formatCount } from "../shell/numberFormat";
import { useDataSets } from "../shell/useDataSets";
import { useJobCache } from "../shell/useJobCache";
import { useLinkDefaults } from "../shell/useLinkDefaults";
import type { RequestOptions } from "../source/source";
import { DataSetList } from "./DataSetList";
import { HeadPatternsJob, ClassWordsJob } from "./DataJobs";
import { ColumnChooser } from "./ColumnChooser";
import { ColumnList } from "./ColumnList";
import { type ColumnsRequest, type UnreadFile, parseUnreadDataSet } from "./columnRoles";
import { buildJobKey, buildPredictKey } from "./jobKeys";
import { RowLimit, resolveLimit } from "./RowLimit";
import { MAX_PREDICTION_ROWS, DEFAULT_PREDICTION_ROWS } from "./jobLimits";
import { Predictions } from "./Predictions";
import { useRowQuery } from "./useRowQuery";
import "../shell/parts.css";
import "./data.css";

const PARTS: Readonly<Record<string, string>> = {
  "": "Predictions",
  words: "Words of each class",
  heads: "What heads attend to",
};

/** Show the list of data sets and the one that is open. */
export function DataPage() {
  const page = useServer();
  const { state, update } = page;
  const { sets, put } = useDataSets(page);
  const chosen = sets.find(({ id }) => id === state.data) ?? (state.data === null ? (sets[0] ?? null) : null);
  useLinkDefaults({
    model: state.model || (page.session.models[0]?.id ?? ""),
    data: chosen?.id ?? state.data,
  });
  const [unread, setUnread] = useState<{ readonly file: File; readonly unread: UnreadFile } | null>(null);
  const choose = (id: string): void => {
    setUnread(null);
    update({ data: id, rows: "" }, "push");
  };
  const upload = (uploaded: DataSet): void => {
    put(uploaded);
    choose(uploaded.id);
    page.announce(`${uploaded.name} is here, with ${formatCount(uploaded.rows, "row")}.`);
  };
  return (
    <div className="data-page with-list">
      <DataSetList
        sets={sets}
        chosen={unread === null ? (chosen?.id ?? null) : null}
        onChoose={choose}
        onBrought={upload}
        onUnread={(file, unreadFile) => setUnread({ file, unread: unreadFile })}
      />
      {unread !== null ? (
        <ColumnChooser
          key={unread.unread.name}
          unread={unread.unread}
          read={(columns, options) => page.source.uploadData(unread.file, options, columns)}
          onRead={upload}
        />
      ) : chosen ? (
        <DataSetOrColumnChooser key={buildJobKey("", page.session, chosen)} set={chosen} onRead={put} />
      ) : (
        <EmptyNote gone={state.data} />
      )}
    </div>
  );
}

function EmptyNote({ gone }: { readonly gone: string | null }) {
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

interface DataSetProps {
  readonly set: DataSet;
  readonly onRead: (set: DataSet) => void;
}

/** Show the data set, or the column chooser where its columns are not known yet. */
function DataSetOrColumnChooser({ set, onRead }: DataSetProps) {
  const { source } = useServer();
  const unread = parseUnreadDataSet(set);
  if (unread === null) return <DataSetView set={set} onRead={onRead} />;
  const read = (columns: ColumnsRequest, options: RequestOptions): Promise<DataSet> =>
    source.readColumns(set.id, columns, options);
  return <ColumnChooser unread={unread} read={read} onRead={onRead} />;
}

function DataSetView({ set, onRead }: DataSetProps) {
  const { source, session, state, update } = useServer();
  const model = state.model || (session.models[0]?.id ?? "");
  const [query, ask] = useRowQuery();
  const limit = resolveLimit(query.predict, set.rows, DEFAULT_PREDICTION_ROWS, MAX_PREDICTION_ROWS);
  const job = useJobCache<PredictionData>(buildPredictKey(session, set, model, limit));
  const { run, value, running, fault } = job;
  const begin = (): void => run((options) => source.predict(set.id, { model, limit }, options));
  const untouched = value === null && !running && fault === null;
  // Predict without a click: a page with only a button shows nothing. The job can be cancelled.
  useEffect(() => {
    if (untouched) begin();
  }, [set.id, model, limit]); // eslint-disable-line react-hooks/exhaustive-deps
  return (
    <div className="one-set">
      <header>
        <h1>{set.name}</h1>
        <ColumnList set={set} onRead={onRead} />
        <div className="controls">
          <ModelChoice label="Model" value={model} onChange={(id) => update({ model: id }, "push")} />
          <RowLimit
            label="Rows to predict"
            rows={set.rows}
            value={limit}
            most={MAX_PREDICTION_ROWS}
            onChange={(predict) => ask({ predict }, "push")}
          />
          {!running && value === null && (
            <button type="button" onClick={begin}>
              Predict {formatCount(limit, "row")}
            </button>
          )}
        </div>
      </header>
      {running && <JobProgress job={job.job} onCancel={job.cancel} />}
      {fault && <FaultNote fault={fault} onRetry={begin} />}
      <Tabs
        label="Parts of the page"
        names={PARTS}
        value={state.tab in PARTS ? state.tab : ""}
        onChange={(tab) => update({ tab }, "push")}
      >
        {(tab): ReactNode => {
          if (tab === "words") return <ClassWordsJob set={set} model={model} rows={value?.rows ?? []} />;
          if (tab === "heads") return <HeadPatternsJob set={set} model={model} />;
          if (value) return <Predictions predictions={value} set={set} model={model} />;
          return !running && !fault && <p className="empty">Not predicted yet.</p>;
        }}
      </Tabs>
    </div>
  );
}
