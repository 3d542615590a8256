/** Text field for queries that filter the flow's edges, and the active filters as removable chips. */

import { useState } from "react";

import type { Update } from "../shell/pageContext";
import type { ViewState } from "../state/state";
import { EXAMPLES, type QueryContext, applyQuery, listChips } from "./queryLanguage";

interface Props {
  readonly state: ViewState;
  readonly queryContext: QueryContext;
  readonly update: Update;
  readonly announce: (text: string) => void;
}

/** Enter a query, and remove its parts. */
export function QueryBox({ state, queryContext, update, announce }: Props) {
  const [text, setWritten] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const inForce = listChips(state, queryContext);
  const submit = (): void => {
    const answer = applyQuery(text, state, queryContext);
    if ("problem" in answer) {
      setProblem(answer.problem);
      announce(answer.problem);
      return;
    }
    setProblem(null);
    setWritten("");
    update(answer.change);
  };
  return (
    <div className="query">
      <form
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <label>
          Filter{" "}
          <input
            type="text"
            data-query
            value={text}
            placeholder={EXAMPLES}
            aria-describedby={problem ? "query-problem" : undefined}
            aria-invalid={problem !== null}
            onChange={(event) => {
              setWritten(event.target.value);
              setProblem(null);
            }}
            onKeyDown={(event) => {
              if (event.key !== "Escape") return;
              event.preventDefault();
              setWritten("");
              setProblem(null);
              event.currentTarget.blur();
            }}
          />
        </label>
        <kbd title="The key / leads here">/</kbd>
      </form>
      {problem && (
        <p id="query-problem" className="problem">
          {problem}
        </p>
      )}
      {inForce.length > 0 && (
        <ul className="chips" aria-label="In force">
          {inForce.map(({ label, removal }) => (
            <li key={label}>
              {label}
              <button type="button" aria-label={`Remove ${label}`} onClick={() => update(removal)}>
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
