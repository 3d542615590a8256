/** What both models say, label by label. */

import type { Compared } from "../api/types";
import { usePage } from "../shell/context";
import { percent } from "../shell/figures";
import { Swatch } from "./Swatch";
import { commonLabels, predictionRows } from "./predictions";

interface Props {
  readonly compared: Compared;
  readonly names: readonly [string, string];
}

export function BothPredictions({ compared, names }: Props) {
  const rows = predictionRows(compared.predictions);
  const [a, b] = compared.predictions;
  const { source, state, update } = usePage();
  const labels =
    source.reach && !source.reach.target ? [] : commonLabels(compared.a.labels, compared.b.labels);
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
                  {row.a === null ? "–" : percent(row.a)}
                </td>
                <td className={b?.label === row.label ? "number said" : "number"}>
                  {row.b === null ? "–" : percent(row.b)}
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
