/** Which rows are shown: by text, by label, by what was predicted, by right and wrong. */

import { grouped } from "../shell/figures";
import { ALL, isFiltered, type Wanted } from "./rows";

interface Props {
  readonly wanted: Wanted;
  readonly labels: readonly string[];
  readonly labelled: boolean;
  readonly found: number;
  readonly all: number;
  readonly onWanted: (wanted: Wanted) => void;
  readonly onSave: () => void;
}

export function Filters({ wanted, labels, labelled, found, all, onWanted, onSave }: Props) {
  const set = (change: Partial<Wanted>): void => onWanted({ ...wanted, ...change });
  return (
    <form className="filters" role="search" aria-label="Rows" onSubmit={(event) => event.preventDefault()}>
      <label>
        Find{" "}
        <input
          type="search"
          value={wanted.search}
          onChange={(event) => set({ search: event.target.value })}
        />
      </label>
      {labelled && (
        <Labels name="Label" value={wanted.label} labels={labels} onChange={(label) => set({ label })} />
      )}
      <Labels
        name="Predicted"
        value={wanted.predicted}
        labels={labels}
        onChange={(predicted) => set({ predicted })}
      />
      {labelled && (
        <label>
          Answers{" "}
          <select
            value={wanted.right === null ? "" : wanted.right ? "right" : "wrong"}
            onChange={({ target }) => set({ right: target.value === "" ? null : target.value === "right" })}
          >
            <option value="">all</option>
            <option value="right">right</option>
            <option value="wrong">wrong</option>
          </select>
        </label>
      )}
      <span className="dim" role="status">
        {grouped(found)} of {grouped(all)} rows
        {wanted.numbers !== null && `, among ${wanted.numbers.length} picked ones`}
      </span>
      {isFiltered(wanted) && (
        <button type="button" className="small" onClick={() => onWanted(ALL)}>
          Show all
        </button>
      )}
      <button type="button" className="small" onClick={onSave} title="The rows shown, as a file">
        CSV
      </button>
    </form>
  );
}

interface LabelsProps {
  readonly name: string;
  readonly value: string | null;
  readonly labels: readonly string[];
  readonly onChange: (label: string | null) => void;
}

// A label may be any text, the empty one too: options are known by their place.
function Labels({ name, value, labels, onChange }: LabelsProps) {
  return (
    <label>
      {name}{" "}
      <select
        value={value === null ? "" : labels.indexOf(value)}
        onChange={({ target }) =>
          onChange(target.value === "" ? null : (labels[Number(target.value)] ?? null))
        }
      >
        <option value="">all</option>
        {labels.map((label, at) => (
          <option key={label} value={at}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}
