/** Confusion matrix: true against predicted labels. A cell is a button that filters the rows below. */

import { usePage } from "../shell/pageContext";
import { chooseInk } from "../render/theme";
import type { PredictionData } from "../api/types";
import { buildConfusionRows, countPredictions } from "./confusionRows";
import type { RowFilter } from "./rows";

interface Props {
  readonly predictions: PredictionData;
  readonly filter: RowFilter;
  readonly onCell: (label: string, predictions: string) => void;
}

/** Show the confusion matrix of a predicted data set. */
export function ConfusionMatrix({ predictions, filter, onCell }: Props) {
  const { theme } = usePage();
  const rows = buildConfusionRows(predictions);
  if (rows === null || rows.length > 20) return null;
  const sums = countPredictions(rows);
  return (
    <table className="confusion">
      <caption>True label by predicted label; choose a cell to see its rows</caption>
      <thead>
        <tr>
          <th scope="col">true ↓ predicted →</th>
          {predictions.labels.map((label) => (
            <th key={label} scope="col" className="number">
              {label}
            </th>
          ))}
          <th scope="col" className="number dim">
            all
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ label, cells, total }) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            {cells.map((cell) => {
              const fill = theme.sequential(Math.sqrt(cell.share));
              const chosen = filter.label === label && filter.predicted === cell.predicted;
              return (
                <td key={cell.predicted}>
                  <button
                    type="button"
                    aria-pressed={chosen}
                    disabled={cell.count === 0}
                    style={cell.count === 0 ? undefined : { background: fill, color: chooseInk(fill) }}
                    aria-label={`${cell.count} of ${total} with the label ${label} were predicted ${cell.predicted}`}
                    onClick={() => onCell(label, cell.predicted)}
                  >
                    {cell.count}
                  </button>
                </td>
              );
            })}
            <td className="number dim">{total}</td>
          </tr>
        ))}
        <tr className="dim">
          <th scope="row">all</th>
          {sums.map((sum, at) => (
            <td key={predictions.labels[at]} className="number">
              {sum}
            </td>
          ))}
          <td className="number">{sums.reduce((all, sum) => all + sum, 0)}</td>
        </tr>
      </tbody>
    </table>
  );
}
