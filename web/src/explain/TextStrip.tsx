/** The text, word by word: tinted by what a method says, underlined by where the traced flow ends. */

import { type KeyboardEvent, type MouseEvent, useMemo, useRef, useState, memo } from "react";

import type { Flow, OneExplanation } from "../api/types";
import type { Theme } from "../render/scene";
import { thickness } from "../render/strip";
import { scaleOf, shadeOf, tint } from "../render/tint";
import { percent, signed as withSign } from "../shell/figures";
import { type Spoken, type Unit, ranksOf, scoresOf, sharesOf, unitsOf } from "./units";

interface Props {
  readonly explanations: Spoken;
  readonly one: OneExplanation;
  readonly flow: Flow | null;
  readonly asWords: boolean;
  readonly pinned: readonly number[]; // tokens
  readonly theme: Theme;
  readonly onPin: (unit: Unit, add: boolean) => void;
  readonly onRead: (words: string) => void; // called at every movement: must not set state
}

/** Hundreds of buttons: drawn again only when something of theirs changed, not at every step of a slider. */
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
  const units = useMemo(() => unitsOf(explanations, asWords), [explanations, asWords]);
  const scores = scoresOf(one, asWords);
  const ranks = useMemo(() => ranksOf(scores), [scores]);
  const shares = useMemo(() => sharesOf(flow, units), [flow, units]);
  const scale = useMemo(() => scaleOf(one), [one]);
  const mostShare = Math.max(...shares, 1e-9);
  const focusable = Math.min(place, units.length - 1);
  const segments = [...new Set(units.map(({ segment }) => segment))];

  const wordsOf = (index: number): string => {
    const score = `${units[index]?.text ?? ""}: ${withSign(scores[index] ?? 0)}, rank ${ranks[index] ?? 0} of ${units.length}`;
    return flow ? `${score}; ${percent(shares[index] ?? 0)} of the traced flow ends here` : score;
  };
  const walk = (event: KeyboardEvent): void => {
    const next = { ArrowLeft: focusable - 1, ArrowRight: focusable + 1, Home: 0, End: units.length - 1 }[
      event.key
    ];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const at = Math.max(0, Math.min(units.length - 1, next));
    setPlace(at);
    strip.current?.querySelectorAll<HTMLElement>("button.unit")[at]?.focus();
  };
  const read = (event: { target: EventTarget }): void => {
    const index = event.target instanceof HTMLElement ? event.target.dataset["unit"] : undefined;
    onRead(index === undefined ? "" : wordsOf(Number(index)));
  };
  const pin = (event: MouseEvent, index: number): void => {
    const unit = units[index];
    setPlace(index);
    if (unit) onPin(unit, event.shiftKey);
  };
  return (
    <div
      ref={strip}
      className={asWords ? "strip" : "strip tokens"}
      role="toolbar"
      aria-label={`The text, tinted by ${one.method}`}
      tabIndex={-1}
      onKeyDown={walk}
      onFocus={read}
      onBlur={() => onRead("")}
      onPointerOver={read}
      onPointerLeave={() => onRead("")}
    >
      {segments.map((segment) => (
        <p key={segment} className="segment" dir="auto">
          {segments.length > 1 && (
            <span className="segment-name" aria-label={`Segment ${name(segment)}`}>
              {name(segment)}
            </span>
          )}
          {units.map((unit, index) =>
            unit.segment !== segment ? null : (
              <span key={index}>
                {unit.before}
                <button
                  type="button"
                  data-unit={index}
                  className={`unit${unit.special ? " special" : ""}`}
                  aria-pressed={unit.tokens.some((token) => pinned.includes(token))}
                  aria-label={wordsOf(index)}
                  tabIndex={index === focusable ? 0 : -1}
                  style={{
                    ...tint(shadeOf(scores[index] ?? 0, scale), one.signed, theme),
                    borderBottomWidth: flow ? thickness((shares[index] ?? 0) / mostShare) : 0,
                  }}
                  onClick={(event) => pin(event, index)}
                >
                  {unit.text}
                </button>
              </span>
            ),
          )}
        </p>
      ))}
    </div>
  );
});

function name(segment: number): string {
  return segment === 0 ? "A" : "B";
}
