/** Text strip: words tinted by a method's scores, underlined by their share of the traced flow. */

import { type KeyboardEvent, type MouseEvent, useMemo, useRef, useState, memo } from "react";

import type { Flow, MethodExplanation } from "../api/types";
import type { Theme } from "../render/scene";
import { chooseThickness } from "../render/wordStrips";
import { buildScale, computeShade, tintShade } from "../render/tint";
import { formatPercent, formatSigned } from "../shell/numberFormat";
import {
  type TokenizedText,
  type TextFeature,
  rankScores,
  selectScores,
  sumShares,
  listFeatures,
} from "./textFeatures";

interface Props {
  readonly explanations: TokenizedText;
  readonly one: MethodExplanation;
  readonly flow: Flow | null;
  readonly asWords: boolean;
  readonly pinned: readonly number[]; // tokens
  readonly theme: Theme;
  readonly onPin: (feature: TextFeature, add: boolean) => void;
  readonly onRead: (words: string) => void; // called at every pointer move: must not set state
}

/** Show one strip. Memoised: hundreds of buttons must not render again at every step of a slider. */
export const TextStrip = memo(function TextStrip({
  explanations,
  one,
  flow,
  asWords,
  pinned,
  theme,
  onPin,
  onRead,
}: Props) {
  const strip = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState(0);
  const features = useMemo(() => listFeatures(explanations, asWords), [explanations, asWords]);
  const scores = selectScores(one, asWords);
  const ranks = useMemo(() => rankScores(scores), [scores]);
  const shares = useMemo(() => sumShares(flow, features), [flow, features]);
  const scale = useMemo(() => buildScale(one), [one]);
  const mostShare = Math.max(...shares, 1e-9);
  const focusable = Math.min(place, features.length - 1);
  const segments = [...new Set(features.map(({ segment }) => segment))];

  const wordsOf = (index: number): string => {
    const score = `${features[index]?.text ?? ""}: ${formatSigned(scores[index] ?? 0)}, rank ${ranks[index] ?? 0} of ${features.length}`;
    return flow ? `${score}; ${formatPercent(shares[index] ?? 0)} of the traced flow ends here` : score;
  };
  const moveFocus = (event: KeyboardEvent): void => {
    const next = { ArrowLeft: focusable - 1, ArrowRight: focusable + 1, Home: 0, End: features.length - 1 }[
      event.key
    ];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const at = Math.max(0, Math.min(features.length - 1, next));
    setPlace(at);
    strip.current?.querySelectorAll<HTMLElement>("button.unit")[at]?.focus();
  };
  const read = (event: { target: EventTarget }): void => {
    const index = event.target instanceof HTMLElement ? event.target.dataset["unit"] : undefined;
    onRead(index === undefined ? "" : wordsOf(Number(index)));
  };
  const pin = (event: MouseEvent, index: number): void => {
    const feature = features[index];
    setPlace(index);
    if (feature) onPin(feature, event.shiftKey);
  };
  return (
    <div
      ref={strip}
      className={asWords ? "strip" : "strip tokens"}
      role="toolbar"
      aria-label={`The text, tinted by ${one.method}`}
      tabIndex={-1}
      onKeyDown={moveFocus}
      onFocus={read}
      onBlur={() => onRead("")}
      onPointerOver={read}
      onPointerLeave={() => onRead("")}
    >
      {segments.map((segment) => (
        <p key={segment} className="segment" dir="auto">
          {segments.length > 1 && (
            <span className="segment-name" aria-label={`Segment ${formatSegment(segment)}`}>
              {formatSegment(segment)}
            </span>
          )}
          {features.map((feature, index) =>
            feature.segment !== segment ? null : (
              <span key={index}>
                {feature.before}
                <button
                  type="button"
                  data-unit={index}
                  className={`unit${feature.special ? " special" : ""}`}
                  aria-pressed={feature.tokens.some((token) => pinned.includes(token))}
                  aria-label={wordsOf(index)}
                  tabIndex={index === focusable ? 0 : -1}
                  style={{
                    ...tintShade(computeShade(scores[index] ?? 0, scale), one.signed, theme),
                    borderBottomWidth: flow ? chooseThickness((shares[index] ?? 0) / mostShare) : 0,
                  }}
                  onClick={(event) => pin(event, index)}
                >
                  {feature.text}
                </button>
              </span>
            ),
          )}
        </p>
      ))}
    </div>
  );
});

function formatSegment(segment: number): string {
  return segment === 0 ? "A" : "B";
}
