/** What the colours of the text mean, with their ends. */

import type { OneExplanation, Explanations } from "../api/types";
import type { Theme } from "../render/scene";
import { plain } from "../shell/figures";
import { largest, tint } from "./tint";

interface Props {
  readonly one: OneExplanation;
  readonly target: Explanations["target"];
  readonly theme: Theme;
}

const STEPS = [-1, -0.6, -0.25, 0, 0.25, 0.6, 1];

export function Legend({ one, target, theme }: Props) {
  const most = plain(largest(one));
  const steps = one.signed ? STEPS : STEPS.slice(3);
  return (
    <p className="legend">
      <span>{one.signed ? `−${most}, against` : "0"}</span>
      <span className="ramp" aria-hidden="true">
        {steps.map((step) => (
          <span key={step} style={{ background: tint(step, one.signed, theme).background }} />
        ))}
      </span>
      <span>
        {one.signed
          ? `${most}, for ${nameOf(target)}`
          : `${most}; no sign: may count for ${nameOf(target)} or against`}
      </span>
      <span className="under-sample" aria-hidden="true" />
      <span>underline: what of the traced flow ends there</span>
    </p>
  );
}

export function nameOf(target: Explanations["target"]): string {
  return target.against ? `${target.label} rather than ${target.against.label}` : target.label;
}
