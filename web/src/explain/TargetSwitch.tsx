/** What the model said, label by label, and which of it is explained. */

import type { Explanations } from "../api/types";
import { plain } from "../shell/figures";
import type { ViewState } from "../state/state";

interface Props {
  readonly explanations: Explanations;
  readonly of: ViewState["of"];
  readonly target: string | null;
  readonly whyNot: string | null;
  readonly onChange: (change: Pick<ViewState, "target"> | Pick<ViewState, "of">) => void;
}

const MOST = 6;

export function TargetSwitch({ explanations, of, target, whyNot, onChange }: Props) {
  const { prediction, runner_up: runnerUp } = explanations;
  const labels = Object.entries(prediction.probabilities).sort(([, a], [, b]) => b - a);
  const against = explanations.target.against;
  const contrast = runnerUp === null ? null : `${prediction.label}:${runnerUp}`;
  // What was just chosen is chosen, also while the answer is on its way; a link may say it in other words.
  const isPlain = target !== null && (target === contrast || target in prediction.probabilities);
  const wished = isPlain
    ? target
    : target === null
      ? prediction.label
      : against
        ? contrast
        : explanations.target.label;
  if (labels.length === 0) {
    return (
      <p className="targets">
        {prediction.label} <b>{plain(prediction.logits[prediction.index] ?? 0)}</b>
      </p>
    );
  }
  return (
    <fieldset className="targets" disabled={whyNot !== null} title={whyNot ?? undefined}>
      <legend>Target</legend>
      {labels.slice(0, MOST).map(([label, probability]) => (
        <label key={label} className="target">
          <input
            type="radio"
            name="target"
            checked={wished === label}
            onChange={() => onChange({ target: label === prediction.label ? null : label })}
          />
          <span className="name">{label}</span>
          <span className="bar-of" aria-hidden="true">
            <span style={{ width: `${100 * probability}%` }} />
          </span>
          <span className="number">{probability.toFixed(3)}</span>
          {label === prediction.label && <span className="dim">predicted</span>}
          {label === runnerUp && labels.length > 2 && <span className="dim">runner-up</span>}
        </label>
      ))}
      {labels.length > MOST && (
        <label>
          others{" "}
          <select value="" onChange={(event) => onChange({ target: event.target.value })}>
            <option value="">{labels.length - MOST} more</option>
            {labels.slice(MOST).map(([label, probability]) => (
              <option key={label} value={label}>
                {label} {probability.toFixed(3)}
              </option>
            ))}
          </select>
        </label>
      )}
      {contrast && (
        <label className="target">
          <input
            type="radio"
            name="target"
            checked={wished === contrast}
            onChange={() => onChange({ target: contrast })}
          />
          <span className="name">
            {prediction.label} rather than {runnerUp}
          </span>
        </label>
      )}
      {against && target !== contrast && <span className="dim">now: {target}</span>}
      <label>
        of the{" "}
        <select
          value={of}
          onChange={(event) =>
            onChange({ of: event.target.value === "probability" ? "probability" : "logit" })
          }
        >
          <option>logit</option>
          <option>probability</option>
        </select>
      </label>
    </fieldset>
  );
}
