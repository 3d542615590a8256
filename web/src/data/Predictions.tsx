/** Predictions of a data set: accuracy, confusion matrix, and every row. */

import type { DataSet, Interval, PredictionData } from "../api/types";
import { formatCsv } from "../render/csv";
import { useServer } from "../shell/pageContext";
import { download } from "../shell/download";
import { formatCount, formatPercent, formatInterval } from "../shell/numberFormat";
import { shortenModelName } from "../shell/modelNames";
import { ConfusionMatrix } from "./ConfusionMatrix";
import { RowFilters } from "./RowFilters";
import { explainRow } from "./explainRow";
import { RowTable } from "./RowTable";
import { NO_FILTER, sortRows, filterRows } from "./rows";
import { useRowQuery } from "./useRowQuery";

interface Props {
  readonly predictions: PredictionData;
  readonly set: DataSet;
  readonly model: string; // model id; `predictions.model` may be the path of a folder
}

/** Show accuracy, confusion matrix, filters and rows. */
export function Predictions({ predictions, set, model }: Props) {
  const { session, state, update } = useServer();
  const [query, ask] = useRowQuery();
  const { filter, order } = query;
  const matches = filterRows(predictions.rows, filter);
  const labelled = predictions.rows.some((row) => row.label !== null);
  const toggleCell = (label: string, guess: string): void => {
    const again = filter.label === label && filter.predicted === guess;
    ask({ filter: again ? NO_FILTER : { ...NO_FILTER, label, predicted: guess }, page: 0 }, "push");
  };
  const save = (): void => {
    const table = { columns: COLUMNS, rows: sortRows(matches, order).map(buildCells) };
    const caption = `${set.name}, ${shortenModelName(model, session)}: ${formatCount(matches.length, "row")} of ${predictions.rows.length}`;
    download("whence-predictions.csv", new Blob([formatCsv(table, caption)], { type: "text/csv" }));
  };
  return (
    <section className="predictions" aria-label="Predictions">
      <div className="figures">
        <div>
          {predictions.accuracy ? (
            <p>
              <strong className="large">
                {predictions.accuracy.mean === null ? "–" : formatPercent(predictions.accuracy.mean)}
              </strong>{" "}
              right
              <br />
              <span className="dim">{formatAccuracy(predictions.accuracy)}</span>
            </p>
          ) : (
            <p>
              <strong>{formatCount(predictions.rows.length, "row")} predicted.</strong>
              <br />
              <span className="dim">
                {labelled
                  ? "For these labels and this model, right and wrong cannot be counted."
                  : "The file has no labels, so nothing says which are right."}
              </span>
            </p>
          )}
          <p className="dim">{predictions.surprise}</p>
          {predictions.left_out.map((sentence) => (
            <p key={sentence} className="note">
              {sentence}
            </p>
          ))}
        </div>
        <ConfusionMatrix predictions={predictions} filter={filter} onCell={toggleCell} />
      </div>
      <RowFilters
        filter={filter}
        labels={predictions.labels}
        labelled={labelled}
        count={matches.length}
        all={predictions.rows.length}
        onFilter={(next) => ask({ filter: next, page: 0 })}
        onSave={save}
      />
      <RowTable
        rows={predictions.rows}
        query={query}
        surprise={predictions.surprise}
        onAsk={ask}
        onRow={(row) => update(explainRow(row, model, set.id, state.rows), "push")}
      />
    </section>
  );
}

function formatAccuracy(accuracy: Interval): string {
  const known = formatInterval(accuracy, formatPercent);
  return known === "–"
    ? `of ${formatCount(accuracy.n, "row")}, too few for an interval`
    : `95% interval ${known}, n = ${accuracy.n}`;
}

const COLUMNS = ["row", "text", "pair", "label", "predicted", "probability", "surprise"];

function buildCells(row: PredictionData["rows"][number]): (string | number)[] {
  const { number, text, pair, label, predicted: predictions, probability, surprise } = row;
  return [number, text, pair ?? "", label ?? "", predictions, probability ?? "", surprise ?? ""];
}
