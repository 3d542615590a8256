/** A data set with its predictions: how many are right, which are mixed up, and every row. */

import type { Interval, Predicted } from "../api/types";
import { csv } from "../render/csv";
import { useServer } from "../shell/context";
import { download } from "../shell/download";
import { count, percent, range } from "../shell/figures";
import { Confusion } from "./Confusion";
import { Filters } from "./Filters";
import { explainRow } from "./explainRow";
import { readRows, writeRows, type Asked } from "./rowlink";
import { RowTable } from "./RowTable";
import { ALL, orderedRows, wantedRows } from "./rows";

export function Predictions({ predicted, name }: { readonly predicted: Predicted; readonly name: string }) {
  const { state, update } = useServer();
  const asked = readRows(state.rows);
  const { wanted, order } = asked;
  const ask = (change: Partial<Asked>, mode: "push" | "replace" = "replace"): void =>
    update({ rows: writeRows({ ...asked, ...change }) }, mode);
  const found = wantedRows(predicted.rows, wanted);
  const labelled = predicted.rows.some((row) => row.label !== null);
  const cell = (label: string, guess: string): void => {
    const again = wanted.label === label && wanted.predicted === guess;
    ask({ wanted: again ? ALL : { ...ALL, label, predicted: guess } }, "push");
  };
  const save = (): void => {
    const table = { columns: COLUMNS, rows: orderedRows(found, order).map(cells) };
    const caption = `${name}, ${predicted.model}: ${count(found.length, "row")} of ${predicted.rows.length}`;
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
        onWanted={(next) => ask({ wanted: next })}
        onSave={save}
      />
      <RowTable
        rows={predicted.rows}
        wanted={wanted}
        order={order}
        surprise={predicted.surprise}
        onOrder={(next) => ask({ order: next })}
        onRow={(row) => update(explainRow(row, predicted.model), "push")}
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
