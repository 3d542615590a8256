/** What the colours of one strip mean, with their ends: every method has its own scale. */

import type { Explanations } from "../api/types";
import { endsOf, rampOf } from "../render/strip";
import type { Theme } from "../render/scene";
import { type Scored, scaleOf, tint } from "../render/tint";

interface Props {
  readonly one: Scored;
  readonly target: Explanations["target"];
  readonly theme: Theme;
  readonly underlined?: boolean; // say what the underline is
}

export function Legend({ one, target, theme, underlined = false }: Props) {
  const scale = scaleOf(one);
  const { low, high } = endsOf(scale, nameOf(target));
  return (
    <p className="legend">
      <span>{low}</span>
      <span className="ramp" aria-hidden="true">
        {rampOf(scale).map((step) => (
          <span key={step} style={{ background: tint(step, one.signed, theme).background }} />
        ))}
      </span>
      <span>{high}</span>
      {scale.legend && <span>{scale.legend}.</span>}
      {scale.note && <strong className="faint">{scale.note}</strong>}
      {underlined && (
        <>
          <span className="under-sample" aria-hidden="true" />
          <span>underline: what of the traced flow ends there</span>
        </>
      )}
    </p>
  );
}

export function nameOf(target: Explanations["target"]): string {
  return target.against ? `${target.label} rather than ${target.against.label}` : target.label;
}
