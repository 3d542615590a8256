/** List of the rows that contain a word, with the word highlighted; a row opens in the workbench. */

import { useServer } from "../shell/pageContext";
import { explainRow } from "./explainRow";
import { splitAtWord } from "./wordMatches";
import type { Row } from "./rows";

interface Props {
  readonly title: string;
  readonly numbers: readonly number[];
  readonly word: string;
  readonly rows: readonly Row[];
  readonly model: string; // its id
  readonly data: string; // the data set's
  readonly onClose: () => void;
}

/** Show rows by their numbers, with a word highlighted. */
export function ExampleList({ title, numbers, word, rows, model, data, onClose }: Props) {
  const { state, update } = useServer();
  const byNumber = new Map(rows.map((row) => [row.number, row]));
  const known = numbers.flatMap((number) => byNumber.get(number) ?? []);
  const unknown = numbers.filter((number) => !byNumber.has(number));
  return (
    <div className="examples" role="group" aria-label={title}>
      <p>
        <strong>{title}</strong>
        <button type="button" className="small" onClick={onClose} aria-label="Close the examples">
          ✕
        </button>
      </p>
      <ul>
        {known.map((row) => (
          <li key={row.number}>
            <button
              type="button"
              className="plain"
              title="Explain this input"
              onClick={() => update(explainRow(row, model, data, state.rows), "push")}
            >
              <span className="dim">{row.number}</span>{" "}
              {splitAtWord(row.pair === null ? row.text : `${row.text} | ${row.pair}`, word).map(
                (part, at) => (part.isMatch ? <mark key={at}>{part.text}</mark> : part.text),
              )}
            </button>
          </li>
        ))}
      </ul>
      {unknown.length > 0 && (
        <p className="dim">
          Also in {unknown.length === 1 ? "row" : "rows"} {unknown.join(", ")}, which were not predicted.
        </p>
      )}
    </div>
  );
}
