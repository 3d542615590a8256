/** What is asked: a model, a text, perhaps a second one. */

import { type KeyboardEvent, type ReactNode, useState } from "react";

import type { Input, Session } from "../api/types";
import { ModelChoice } from "../shell/ModelChoice";
import { grouped } from "../shell/figures";

interface Props {
  readonly input: Input;
  readonly session: Session;
  readonly pending: boolean;
  readonly whyNot: string | null; // where no other text can be asked about
  readonly onAsk: (text: string, pair: string | null) => void;
  readonly onModel: (model: string) => void;
  readonly models?: ReactNode; // in the place of the choice of one model
  readonly verb?: string;
}

export function AskForm({
  input,
  session,
  pending,
  whyNot,
  onAsk,
  onModel,
  models,
  verb = "Explain",
}: Props) {
  const [text, setText] = useState(input.text);
  const [pair, setPair] = useState(input.pair ?? null);
  const takesPairs = session.models.find(({ id }) => id === input.model)?.takes_pairs ?? true;
  const ask = (): void => {
    if (text.trim() !== "") onAsk(text, pair === "" ? null : pair);
  };
  const submitOnEnter = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    ask();
  };
  const rows = Math.min(5, 1 + Math.floor(text.length / 110) + (text.match(/\n/g)?.length ?? 0));
  return (
    <form
      className="ask"
      onSubmit={(event) => {
        event.preventDefault();
        ask();
      }}
    >
      <fieldset disabled={whyNot !== null} title={whyNot ?? undefined}>
        <legend className="unseen">What is explained</legend>
        {models ?? <ModelChoice label="Model " value={input.model} onChange={onModel} />}
        <label className="grow">
          <span className="unseen">Text</span>
          <textarea
            name="text"
            rows={rows}
            dir="auto"
            placeholder="A text to explain"
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={submitOnEnter}
          />
        </label>
        {pair !== null && (
          <label className="grow">
            <span className="unseen">Second text</span>
            <textarea
              name="pair"
              rows={1}
              dir="auto"
              placeholder="A second text, for models of pairs"
              value={pair}
              onChange={(event) => setPair(event.target.value)}
              onKeyDown={submitOnEnter}
            />
          </label>
        )}
        {(takesPairs || pair !== null) && (
          <button type="button" className="small" onClick={() => setPair(pair === null ? "" : null)}>
            {pair === null ? "+ second text" : "− second text"}
          </button>
        )}
        <button type="submit" className="primary" disabled={text.trim() === ""} aria-busy={pending}>
          {verb}
        </button>
      </fieldset>
      <Counter text={text} pair={pair} most={session.limits.characters} />
      {session.samples.length > 1 && whyNot === null && (
        <details className="menu samples">
          <summary>Samples</summary>
          <div className="sheet">
            {session.samples.map((sample) => (
              <button
                key={`${sample.text} ${sample.pair ?? ""}`}
                type="button"
                className="plain"
                onClick={(event) => {
                  event.currentTarget.closest("details")?.removeAttribute("open");
                  setText(sample.text);
                  setPair(sample.pair);
                  onAsk(sample.text, sample.pair);
                }}
              >
                {sample.pair === null ? sample.text : `${sample.text} / ${sample.pair}`}
              </button>
            ))}
          </div>
        </details>
      )}
    </form>
  );
}

interface CounterProps {
  readonly text: string;
  readonly pair: string | null;
  readonly most: number;
}

/** Nothing is cut: who comes near the limit is told, and who is beyond it hears the server. */
function Counter({ text, pair, most }: CounterProps) {
  const longest = Math.max([...text].length, [...(pair ?? "")].length);
  if (longest < 0.9 * most) return null;
  return (
    <p className={longest > most ? "counter problem" : "counter dim"} role="status">
      {grouped(longest)} of {grouped(most)} characters
      {longest > most && ": too long, the server will refuse it"}
    </p>
  );
}
