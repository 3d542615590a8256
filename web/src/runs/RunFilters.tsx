/** Which rows of a run: by method, by whether it failed, by words in the text, by what a metric says. */

import { useEffect, useState } from "react";

import type { StoredRun } from "../api/types";
import { count } from "../shell/figures";
import type { Asked, Order } from "./rowlink";

interface Props {
  readonly run: StoredRun;
  readonly asked: Asked;
  readonly found: number | null;
  readonly onAsk: (change: Partial<Asked>, mode?: "push" | "replace") => void;
}

const REST = 300; // milliseconds without a key before the files are searched

const ORDERS: Readonly<Record<Order, string>> = {
  data: "as in the data",
  best: "best first",
  worst: "worst first",
};

export function RunFilters({ run, asked, found, onAsk }: Props) {
  return (
    <form className="filters" role="search" aria-label="Rows" onSubmit={(event) => event.preventDefault()}>
      <Find
        key={asked.search}
        value={asked.search}
        onFind={(search) => onAsk({ search, page: 0 }, "replace")}
      />
      <Names
        name="Method"
        none="all"
        value={asked.method}
        names={run.methods}
        onChange={(method) => onAsk({ method, page: 0 })}
      />
      <label>
        Explanations{" "}
        <select
          value={asked.failed === null ? "" : String(asked.failed)}
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
        <Names
          name="Metric"
          none="none"
          value={asked.metric}
          names={run.metrics}
          onChange={(metric) => onAsk({ metric, order: metric === null ? "data" : asked.order, page: 0 })}
        />
      )}
      {asked.metric !== null && (
        <label>
          Order{" "}
          <select
            value={asked.order}
            onChange={({ target }) => onAsk({ order: orderOf(target.value), page: 0 })}
          >
            {(Object.keys(ORDERS) as Order[]).map((order) => (
              <option key={order} value={order}>
                {ORDERS[order]}
              </option>
            ))}
          </select>
        </label>
      )}
      <span className="dim" role="status">
        {found === null ? "" : count(found, "row")}
      </span>
    </form>
  );
}

function orderOf(written: string): Order {
  return written === "best" || written === "worst" ? written : "data";
}

/** Every key would have all files searched; a hand that rests is what counts. */
function Find({ value, onFind }: { readonly value: string; readonly onFind: (search: string) => void }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => {
    if (typed === value) return;
    const timer = window.setTimeout(() => onFind(typed), REST);
    return () => window.clearTimeout(timer);
  });
  return (
    <label>
      Find{" "}
      <input type="search" value={typed} maxLength={300} onChange={({ target }) => setTyped(target.value)} />
    </label>
  );
}

interface NamesProps {
  readonly name: string;
  readonly none: string;
  readonly value: string | null;
  readonly names: readonly string[];
  readonly onChange: (name: string | null) => void;
}

function Names({ name, none, value, names, onChange }: NamesProps) {
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
