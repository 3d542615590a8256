/** Filters of a run's rows: method, failure, words in the text, order by a metric. */

import { useEffect, useState } from "react";

import type { RunSummary } from "../api/types";
import { formatCount } from "../shell/numberFormat";
import type { RunRowQuery, MetricOrder } from "./runRowQuery";

interface Props {
  readonly run: RunSummary;
  readonly query: RunRowQuery;
  readonly count: number | null;
  readonly onAsk: (change: Partial<RunRowQuery>, mode?: "push" | "replace") => void;
}

const REST = 300; // milliseconds without a key before the files are searched

const ORDERS: Readonly<Record<MetricOrder, string>> = {
  data: "as in the data",
  best: "best first",
  worst: "worst first",
};

/** Show the filter fields and the number of matching rows. */
export function RunFilters({ run, query, count, onAsk }: Props) {
  return (
    <form className="filters" role="search" aria-label="Rows" onSubmit={(event) => event.preventDefault()}>
      <SearchField
        key={query.search}
        value={query.search}
        onFind={(search) => onAsk({ search, page: 0 }, "replace")}
      />
      <NameSelect
        name="Method"
        none="all"
        value={query.method}
        names={run.methods}
        onChange={(method) => onAsk({ method, page: 0 })}
      />
      <label>
        Explanations{" "}
        <select
          value={query.failed === null ? "" : String(query.failed)}
          onChange={({ target }) =>
            onAsk({ failed: target.value === "" ? null : target.value === "true", page: 0 })
          }
        >
          <option value="">all</option>
          <option value="true">failed</option>
          <option value="false">made</option>
        </select>
      </label>
      {run.metrics.length > 0 && (
        <NameSelect
          name="Metric"
          none="none"
          value={query.metric}
          names={run.metrics}
          onChange={(metric) => onAsk({ metric, order: metric === null ? "data" : query.order, page: 0 })}
        />
      )}
      {query.metric !== null && (
        <label>
          Order{" "}
          <select
            value={query.order}
            onChange={({ target }) => onAsk({ order: parseOrder(target.value), page: 0 })}
          >
            {(Object.keys(ORDERS) as MetricOrder[]).map((order) => (
              <option key={order} value={order}>
                {ORDERS[order]}
              </option>
            ))}
          </select>
        </label>
      )}
      <span className="dim" role="status">
        {count === null ? "" : formatCount(count, "row")}
      </span>
    </form>
  );
}

function parseOrder(text: string): MetricOrder {
  return text === "best" || text === "worst" ? text : "data";
}

/** Search field that waits for a pause in typing: each search reads all files. */
function SearchField({
  value,
  onFind,
}: {
  readonly value: string;
  readonly onFind: (search: string) => void;
}) {
  const [draft, setDraft] = useState(value);
  useEffect(() => {
    if (draft === value) return;
    const timer = window.setTimeout(() => onFind(draft), REST);
    return () => window.clearTimeout(timer);
  });
  return (
    <label>
      Find{" "}
      <input type="search" value={draft} maxLength={300} onChange={({ target }) => setDraft(target.value)} />
    </label>
  );
}

interface NameSelectProps {
  readonly name: string;
  readonly none: string;
  readonly value: string | null;
  readonly names: readonly string[];
  readonly onChange: (name: string | null) => void;
}

function NameSelect({ name, none, value, names, onChange }: NameSelectProps) {
  return (
    <label>
      {name}{" "}
      <select
        value={value ?? ""}
        onChange={({ target }) => onChange(target.value === "" ? null : target.value)}
      >
        <option value="">{none}</option>
        {(value === null || names.includes(value) ? names : [value, ...names]).map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}
