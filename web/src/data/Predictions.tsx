/** A data set with its predictions: how many are right, which are mixed up, and every row. */

import type { DataSet, Interval, Predicted } from "../api/types";
import { csv } from "../render/csv";
import { useServer } from "../shell/context";
import { download } from "../shell/download";
import { count, percent, range } from "../shell/figures";
import { shortName } from "../shell/names";
import { Confusion } from "./Confusion";
import { Filters } from "./Filters";
import { explainRow } from "./explainRow";
import { RowTable } from "./RowTable";
import { ALL, orderedRows, wantedRows } from "./rows";
import { useRows } from "./useRows";

interface Props {
  readonly predicted: Predicted;
  readonly set: DataSet;
  readonly model: string; // its id: what `predicted` calls it may be the path of a folder
}

export function Predictions({ predicted, set, model }: Props) {
  const { session, state, update } = useServer();
  const [asked, ask] = useRows();
  const { wanted, order } = asked;
  const found = wantedRows(predicted.rows, wanted);
  const labelled = predicted.rows.some((row) => row.label !== null);
  const cell = (label: string, guess: string): void => {
    const again = wanted.label === label && wanted.predicted === guess;
    ask({ wanted: again ? ALL : { ...ALL, label, predicted: guess }, page: 0 }, "push");
  };
  const save = (): void => {
    const table = { columns: COLUMNS, rows: orderedRows(found, order).map(cells) };
    const caption = `${set.name}, ${shortName(model, session)}: ${count(found.length, "row")} of ${predicted.rows.length}`;
    download("whence-predictions.csv", new Blob([csv(table, caption)], { type: "text/csv" }));
  };
  return (
    <section className="predictions" aria-label="Predictions">
      <div className="figures">
        <div>
          {predicted.accuracy ? (
            <p>
              <strong className="large">
                {predicted.accuracy.mean === null ? "–" : percent(predicted.accuracy.mean)}
              </strong>{" "}
              right
              <br />
              <span className="dim">{interval(predicted.accuracy)}</span>
            </p>
          ) : (
            <p>
              <strong>{count(predicted.rows.length, "row")} predicted.</strong>
              <br />
              <span className="dim">
                {labelled
                  ? "For these labels and this model, right and wrong cannot be counted."
                  : "The file has no labels, so nothing says which are right."}
              </span>
            </p>
          )}
          <p className="dim">{predicted.surprise}</p>
          {predicted.left_out.map((sentence) => (
            <p key={sentence} className="note">
              {sentence}
            </p>
          ))}
        </div>
        <Confusion predicted={predicted} wanted={wanted} onCell={cell} />
      </div>
      <Filters
        wanted={wanted}
        labels={predicted.labels}
        labelled={labelled}
        found={found.length}
        all={predicted.rows.length}
        onWanted={(next) => ask({ wanted: next, page: 0 })}
        onSave={save}
      />
      <RowTable
        rows={predicted.rows}
        asked={asked}
        surprise={predicted.surprise}
        onAsk={ask}
        onRow={(row) => update(explainRow(row, model, set.id, state.rows), "push")}
      />
    </section>
  );
}

function interval(accuracy: Interval): string {
  const known = range(accuracy, percent);
  return known === "–"
    ? `of ${count(accuracy.n, "row")}, too few for an interval`
    : `95% interval ${known}, n = ${accuracy.n}`;
}

const COLUMNS = ["row", "text", "pair", "label", "predicted", "probability", "surprise"];

function cells(row: Predicted["rows"][number]): (string | number)[] {
  const { number, text, pair, label, predicted, probability, surprise } = row;
  return [number, text, pair ?? "", label ?? "", predicted, probability ?? "", surprise ?? ""];
}
