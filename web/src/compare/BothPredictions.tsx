/** What both models say, label by label. */

import type { Compared } from "../api/types";
import { percent } from "../shell/figures";
import { Swatch } from "./Swatch";
import { predictionRows } from "./predictions";

interface Props {
  readonly compared: Compared;
  readonly names: readonly [string, string];
}

export function BothPredictions({ compared, names }: Props) {
  const rows = predictionRows(compared.predictions);
  const [a, b] = compared.predictions;
  return (
    <section className="panel predictions-of-both" aria-label="Predictions">
      <h2>Predictions</h2>
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
