/** What the model writes when it goes on, and which parts of the prompt each token of it came from. */

import { useCallback, useEffect } from "react";

import type { Generated, Input } from "../api/types";
import { bars } from "../render/bars";
import { generation } from "../render/generation";
import type { Theme } from "../render/scene";
import { percent, shorten, visible } from "../render/text";
import { Drawn } from "../shell/Drawn";
import { FaultNote } from "../shell/FaultNote";
import { JobLine } from "../shell/JobLine";
import { usePage } from "../shell/context";
import { usualMethod } from "../shell/resolved";
import { useKeptJob } from "../shell/useKeptJob";
import { GRANULARITIES, namesOf } from "../state/choices";
import { entryOf } from "./asked";

interface Props {
  readonly input: Input;
  readonly tokens: number;
  readonly caption: string;
}

export function GenerationPanel({ input, tokens: wished, caption }: Props) {
  const { source, session, state, update } = usePage();
  const tokens = Math.max(1, Math.min(wished, session.limits.generated));
  const { granularity } = state;
  const method = state.methods[0] ?? usualMethod(input.model, session);
  // An encoder-decoder does not go on with the text: it writes another.
  const isAnother = entryOf(input, session)?.task === "sequence";
  const asked = { input: { ...input, target: null, rather: null }, method, tokens, granularity };
  const key = JSON.stringify(["generate", session.started, asked]);
  const work = useKeptJob<Generated>(key);
  const { value, fault, running, run } = work;
  const isNew = value === null && fault === null && !running;
  useEffect(() => {
    if (isNew) run((asking) => source.generate(asked, asking));
  }, [key, isNew]); // eslint-disable-line react-hooks/exhaustive-deps
  const draw = useCallback(
    (theme: Theme, width: number) => (value ? generation(value, { width, theme }) : EMPTY),
    [value],
  );
  const shares = useCallback(
    (theme: Theme, width: number) =>
      bars(value ? sharesOf(value) : [], { width, theme, title: SHARES, written: percent }),
    [value],
  );
  return (
    <section className="panel generation" aria-labelledby="generation" aria-busy={running}>
      <div className="head">
        <h2 id="generation">Generation</h2>
        <label className="field">
          The prompt by{" "}
          <select
            value={granularity}
            onChange={({ target: { value: chosen } }) =>
              update({ granularity: namesOf(GRANULARITIES).find((each) => each === chosen) ?? "token" })
            }
          >
            {namesOf(GRANULARITIES).map((name) => (
              <option key={name} value={name}>
                {GRANULARITIES[name]}
              </option>
            ))}
          </select>
        </label>
        <button type="button" className="small" onClick={() => update({ generate: null })}>
          Close
        </button>
      </div>
      {running && (
        <JobLine
          job={work.job}
          onCancel={() => {
            work.cancel();
            update({ generate: null });
          }}
        />
      )}
      {fault && <FaultNote fault={fault} onAgain={() => run((asking) => source.generate(asked, asking))} />}
      {value && (
        <>
          <p className="written" dir="auto">
            <span className="dim">{shorten(value.input.text ?? "", 200)}</span>
            {isAnother && " → "}
            <b>{value.text}</b>
          </p>
          {value.input.dropped > 0 && (
            <p className="dim">
              The prompt is too long for the model: {value.input.dropped} tokens were cut off and played no
              part.
            </p>
          )}
          {value.warnings.map(({ message }) => (
            <p className="dim" key={message}>
              {message}
            </p>
          ))}
          {value.full && <p className="dim">The model takes no more than this: it cannot go on.</p>}
          <Drawn name="generation" caption={`${caption} · ${value.outputs.length} outputs`} draw={draw} />
          {value.granularity !== "token" && value.granularity !== "word" && (
            <>
              <p className="dim">{SHARES}</p>
              <Drawn name="pieces" caption={caption} draw={shares} most={720} />
            </>
          )}
        </>
      )}
    </section>
  );
}

const SHARES =
  "What of all scores fell on each piece of the prompt, and in brackets what a random explanation gives it";

function sharesOf({ pieces }: Generated) {
  return pieces
    .filter(({ special }) => !special)
    .map(({ text, share, chance }) => ({
      label: `${shorten(visible(text), 40)} (${percent(chance)})`,
      value: share,
    }));
}

const EMPTY = { width: 1, height: 1, marks: [], label: "", table: { columns: [], rows: [] }, edges: [] };
