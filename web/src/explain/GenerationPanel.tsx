/** Generation panel: generated text, scores of its prompt for each token, and share of each prompt piece. */

import { useCallback, useEffect } from "react";

import type { Generation, Input } from "../api/types";
import { drawBars } from "../render/bars";
import { drawGeneration } from "../render/generation";
import type { Theme } from "../render/scene";
import { formatShare, shorten, showInvisible } from "../render/text";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { FaultNote } from "../shell/FaultNote";
import { JobProgress } from "../shell/JobProgress";
import { usePage } from "../shell/pageContext";
import { getDefaultMethod } from "../shell/stateDefaults";
import { useJobCache } from "../shell/useJobCache";
import { GRANULARITIES, listNames } from "../state/choices";
import { findModelEntry } from "./inputRequest";

interface Props {
  readonly input: Input;
  readonly tokens: number;
  readonly caption: string;
}

/** Generate a continuation and show the scores of its prompt. */
export function GenerationPanel({ input, tokens: requested, caption }: Props) {
  const { source, session, state, update } = usePage();
  const tokens = Math.max(1, Math.min(requested, session.limits.generated));
  const { granularity } = state;
  const method = state.methods[0] ?? getDefaultMethod(input.model, session);
  // An encoder-decoder writes a new text instead of continuing.
  const isAnother = findModelEntry(input, session)?.task === "sequence";
  const request = { input: { ...input, target: null, rather: null }, method, tokens, granularity };
  const key = JSON.stringify(["generate", session.started, request]);
  const work = useJobCache<Generation>(key);
  const { value, fault, running, run } = work;
  const isNew = value === null && fault === null && !running;
  useEffect(() => {
    if (isNew) run((options) => source.generate(request, options));
  }, [key, isNew]); // eslint-disable-line react-hooks/exhaustive-deps
  const draw = useCallback(
    (theme: Theme, width: number) => (value ? drawGeneration(value, { width, theme }) : EMPTY),
    [value],
  );
  const shares = useCallback(
    (theme: Theme, width: number) =>
      drawBars(value ? buildShareTable(value) : [], { width, theme, title: SHARES, format: formatShare }),
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
              update({ granularity: listNames(GRANULARITIES).find((each) => each === chosen) ?? "token" })
            }
          >
            {listNames(GRANULARITIES).map((name) => (
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
        <JobProgress
          job={work.job}
          onCancel={() => {
            work.cancel();
            update({ generate: null });
          }}
        />
      )}
      {fault && (
        <FaultNote fault={fault} onRetry={() => run((options) => source.generate(request, options))} />
      )}
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
          <ResponsivePicture
            name="generation"
            caption={`${caption} · ${value.outputs.length} outputs`}
            draw={draw}
          />
          {value.granularity !== "token" && value.granularity !== "word" && (
            <>
              <p className="dim">{SHARES}</p>
              <ResponsivePicture name="pieces" caption={caption} draw={shares} most={720} />
            </>
          )}
        </>
      )}
    </section>
  );
}

const SHARES =
  "What of all scores fell on each piece of the prompt, and in brackets what a random explanation gives it";

function buildShareTable({ pieces }: Generation) {
  return pieces
    .filter(({ special }) => !special)
    .map(({ text, share, chance }) => ({
      label: `${shorten(showInvisible(text), 40)} (${formatShare(chance)})`,
      value: share,
    }));
}

const EMPTY = { width: 1, height: 1, marks: [], label: "", table: { columns: [], rows: [] }, edges: [] };
