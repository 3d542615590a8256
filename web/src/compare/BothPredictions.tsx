/** Table of both models' probabilities, label by label. */

import type { InputComparisonData } from "../api/types";
import { usePage } from "../shell/pageContext";
import { formatPercent } from "../shell/numberFormat";
import { Swatch } from "./Swatch";
import { findCommonLabels, buildPredictionRows } from "./predictionRows";

interface Props {
  readonly comparison: InputComparisonData;
  readonly names: readonly [string, string];
}

/** Show both models' probabilities for every label, and the change. */
export function BothPredictions({ comparison, names }: Props) {
  const rows = buildPredictionRows(comparison.predictions);
  const [a, b] = comparison.predictions;
  const { source, state, update } = usePage();
  const labels =
    source.reach && !source.reach.target ? [] : findCommonLabels(comparison.a.labels, comparison.b.labels);
  return (
    <section className="panel predictions-of-both" aria-label="Predictions">
      <div className="head">
        <h2>Predictions</h2>
        {labels.length > 1 && (
          <label>
            Explain{" "}
            <select
              value={state.target ?? ""}
              onChange={({ target }) => update({ target: target.value === "" ? null : target.value })}
            >
              <option value="">{a && b ? "what B predicts" : "what is predicted"}</option>
              {labels.map((label) => (
                <option key={label}>{label}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      {rows.length === 0 ? (
        <p className="empty">
          Neither model has a head to predict with; their attention can be compared all the same.
        </p>
      ) : (
        <table>
          <caption className="unseen">Probabilities by both models</caption>
          <thead>
            <tr>
              <th scope="col">label</th>
              <th scope="col" className="number">
                <Swatch of="a" /> {names[0]}
              </th>
              <th scope="col" className="number">
                <Swatch of="b" /> {names[1]}
              </th>
              <th scope="col" className="number">
                change
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.label}>
                <th scope="row">{row.label}</th>
                <td className={a?.label === row.label ? "number said" : "number"}>
                  {row.a === null ? "–" : formatPercent(row.a)}
                </td>
                <td className={b?.label === row.label ? "number said" : "number"}>
                  {row.b === null ? "–" : formatPercent(row.b)}
                </td>
                <td className="number">{row.change}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {(a === null) !== (b === null) && (
        <p className="dim">
          {names[a === null ? 0 : 1]} has no head to predict with; only its attention is compared.
        </p>
      )}
    </section>
  );
}
