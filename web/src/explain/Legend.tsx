/** Legend of a text strip: its colours and the ends of their scale; each method has its own scale. */

import type { Explanations } from "../api/types";
import { describeScaleEnds, listShades } from "../render/wordStrips";
import type { Theme } from "../render/scene";
import { type ScoredWords, buildScale, tintShade } from "../render/tint";

interface Props {
  readonly one: ScoredWords;
  readonly target: Explanations["target"];
  readonly theme: Theme;
  readonly underlined?: boolean; // explain the underline too
}

/** Show the colour ramp of one method, and the ends of its scale. */
export function Legend({ one, target, theme, underlined = false }: Props) {
  const scale = buildScale(one);
  const { low, high } = describeScaleEnds(scale, formatTargetName(target));
  return (
    <p className="legend">
      <span>{low}</span>
      <span className="ramp" aria-hidden="true">
        {listShades(scale).map((step) => (
          <span key={step} style={{ background: tintShade(step, one.signed, theme).background }} />
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

/** Format the target, such as "positive" or "positive rather than negative". */
export function formatTargetName(target: Explanations["target"]): string {
  return target.against ? `${target.label} rather than ${target.against.label}` : target.label;
}
