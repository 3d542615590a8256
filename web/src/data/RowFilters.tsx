/** Filters of the row table: text, label, prediction, right or wrong. */

import { formatWhole } from "../shell/numberFormat";
import { NO_FILTER, isFiltered, type RowFilter } from "./rows";

interface Props {
  readonly filter: RowFilter;
  readonly labels: readonly string[];
  readonly labelled: boolean;
  readonly count: number;
  readonly all: number;
  readonly onFilter: (filter: RowFilter) => void;
  readonly onSave: () => void;
}

/** Show the filter fields and the number of matching rows. */
export function RowFilters({ filter, labels, labelled, count, all, onFilter, onSave }: Props) {
  const set = (change: Partial<RowFilter>): void => onFilter({ ...filter, ...change });
  return (
    <form className="filters" role="search" aria-label="Rows" onSubmit={(event) => event.preventDefault()}>
      <label>
        Find{" "}
        <input
          type="search"
          value={filter.search}
          onChange={(event) => set({ search: event.target.value })}
        />
      </label>
      {labelled && (
        <LabelSelect name="Label" value={filter.label} labels={labels} onChange={(label) => set({ label })} />
      )}
      <LabelSelect
        name="Predicted"
        value={filter.predicted}
        labels={labels}
        onChange={(predicted) => set({ predicted })}
      />
      {labelled && (
        <label>
          Answers{" "}
          <select
            value={filter.right === null ? "" : filter.right ? "right" : "wrong"}
            onChange={({ target }) => set({ right: target.value === "" ? null : target.value === "right" })}
          >
            <option value="">all</option>
            <option value="right">right</option>
            <option value="wrong">wrong</option>
          </select>
        </label>
      )}
      <span className="dim" role="status">
        {formatWhole(count)} of {formatWhole(all)} rows
        {filter.numbers !== null && `, among ${filter.numbers.length} picked ones`}
      </span>
      {isFiltered(filter) && (
        <button type="button" className="small" onClick={() => onFilter(NO_FILTER)}>
          Show all
        </button>
      )}
      <button type="button" className="small" onClick={onSave} title="The rows shown, as a file">
        CSV
      </button>
    </form>
  );
}

interface LabelSelectProps {
  readonly name: string;
  readonly value: string | null;
  readonly labels: readonly string[];
  readonly onChange: (label: string | null) => void;
}

// Options are identified by index: a label may be any text, even empty.
function LabelSelect({ name, value, labels, onChange }: LabelSelectProps) {
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
