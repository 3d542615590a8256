/** Choice of the target: labels with probabilities, contrast with the runner-up, and logit or probability. */

import type { Explanations } from "../api/types";
import { showInvisible } from "../render/text";
import { formatPlain } from "../shell/numberFormat";
import type { ViewState } from "../state/state";
import { formatTargetName } from "./Legend";
import { TargetField } from "./TargetField";

interface Props {
  readonly explanations: Explanations;
  readonly of: ViewState["of"];
  readonly target: string | null;
  readonly disabledReason: string | null;
  readonly task: string | null;
  readonly isAnswer?: boolean; // a given answer is explained: it is the only target
  readonly isAlone?: boolean; // labels are scored one by one: no contrast
  readonly onChange: (change: Pick<ViewState, "target"> | Pick<ViewState, "of">) => void;
}

const MOST = 6;

/** Choose the target, a contrast, and logit or probability. */
export function TargetSwitch(props: Props) {
  const {
    explanations,
    of,
    target,
    disabledReason,
    task,
    isAnswer = false,
    isAlone = false,
    onChange,
  } = props;
  const { prediction, runner_up: runnerUp, rest } = explanations;
  const labels = Object.entries(prediction.probabilities)
    .filter(([label]) => label !== rest)
    .sort(([, a], [, b]) => b - a);
  const left = rest ? prediction.probabilities[rest] : undefined;
  const against = explanations.target.against;
  const contrast = runnerUp === null || isAnswer || isAlone ? null : `${prediction.label}:${runnerUp}`;
  // The new choice shows at once, before the answer; a link may spell it differently.
  const isPlain = target !== null && (target === contrast || target in prediction.probabilities);
  const requested = isPlain
    ? target
    : target === null
      ? against
        ? null
        : prediction.label
      : against
        ? contrast
        : explanations.target.label;
  if (labels.length === 0) {
    return (
      <p className="targets">
        {prediction.label} <b>{formatPlain(prediction.logits[prediction.index] ?? 0)}</b>
      </p>
    );
  }
  return (
    <fieldset className="targets" disabled={disabledReason !== null} title={disabledReason ?? undefined}>
      <legend>Target</legend>
      {labels.slice(0, MOST).map(([label, probability]) => (
        <label key={label} className="target">
          <input
            type="radio"
            name="target"
            checked={requested === label}
            disabled={isAnswer}
            onChange={() => onChange({ target: label === prediction.label ? null : label })}
          />
          <span className="name" dir="auto">
            {showInvisible(label)}
          </span>
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
      {rest && left !== undefined && (
        <span className="target dim" title="All that the model could have said and that is not named here">
          <span className="name">{rest}</span>
          <span className="bar-of" aria-hidden="true">
            <span style={{ width: `${100 * left}%` }} />
          </span>
          <span className="number">{left.toFixed(3)}</span>
        </span>
      )}
      {!isAnswer && (
        <TargetField task={task} target={target} onChange={(next) => onChange({ target: next })} />
      )}
      {contrast && (
        <label className="target">
          <input
            type="radio"
            name="target"
            checked={requested === contrast}
            onChange={() => onChange({ target: contrast })}
          />
          <span className="name">
            {prediction.label} rather than {runnerUp}
          </span>
        </label>
      )}
      {against && (contrast === null || target !== contrast) && (
        <span className="dim">now: {formatTargetName(explanations.target)}</span>
      )}
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
