/** True against predicted labels. A cell is a button: it filters the rows below. */

import { usePage } from "../shell/context";
import { inkOn } from "../render/theme";
import type { Predicted } from "../api/types";
import { confusionRows, predictedSums } from "./confusion";
import type { Wanted } from "./rows";

interface Props {
  readonly predicted: Predicted;
  readonly wanted: Wanted;
  readonly onCell: (label: string, predicted: string) => void;
}

export function Confusion({ predicted, wanted, onCell }: Props) {
  const { theme } = usePage();
  const rows = confusionRows(predicted);
  if (rows === null || rows.length > 20) return null;
  const sums = predictedSums(rows);
  return (
    <table className="confusion">
      <caption>True label by predicted label; choose a cell to see its rows</caption>
      <thead>
        <tr>
          <th scope="col">true ↓ predicted →</th>
          {predicted.labels.map((label) => (
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
              const chosen = wanted.label === label && wanted.predicted === cell.predicted;
              return (
                <td key={cell.predicted}>
                  <button
                    type="button"
                    aria-pressed={chosen}
                    disabled={cell.count === 0}
                    style={cell.count === 0 ? undefined : { background: fill, color: inkOn(fill) }}
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
            <td key={predicted.labels[at]} className="number">
              {sum}
            </td>
          ))}
          <td className="number">{sums.reduce((all, sum) => all + sum, 0)}</td>
        </tr>
      </tbody>
    </table>
  );
}
