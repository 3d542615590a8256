/** Filters in words, and what of them is in force. */

import { useState } from "react";

import type { Update } from "../shell/context";
import type { ViewState } from "../state/state";
import { EXAMPLES, type Ground, ask, chips } from "./query";

interface Props {
  readonly state: ViewState;
  readonly ground: Ground;
  readonly update: Update;
  readonly announce: (text: string) => void;
}

export function QueryBox({ state, ground, update, announce }: Props) {
  const [written, setWritten] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const inForce = chips(state, ground);
  const submit = (): void => {
    const answer = ask(written, state, ground);
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
            value={written}
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
          {inForce.map(({ label, without }) => (
            <li key={label}>
              {label}
              <button type="button" aria-label={`Remove ${label}`} onClick={() => update(without)}>
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
