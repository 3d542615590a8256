/** Text of one input per model: words tinted by score, underlined by flow share; method menu and export. */

import { useMemo, useRef } from "react";

import type { InputComparisonData } from "../api/types";
import { Legend, formatTargetName } from "../explain/Legend";
import { type ExportedStrip, StripExport } from "../explain/StripExport";
import { TextStrip } from "../explain/TextStrip";
import type { TextFeature } from "../explain/textFeatures";
import { formatCaption } from "../render/caption";
import { MethodChoice } from "../shell/MethodChoice";
import { usePage } from "../shell/pageContext";
import { formatPercent } from "../shell/numberFormat";
import { formatToday } from "../shell/today";
import { joinTexts } from "./modelPair";
import { Swatch } from "./Swatch";

interface Props {
  readonly comparison: InputComparisonData;
  readonly names: readonly [string, string];
  readonly pinned: readonly number[];
  readonly onPin: (feature: TextFeature, add: boolean) => void;
}

/** Show the text of one input twice, tinted by each model's scores. */
export function BothTexts({ comparison, names, pinned, onPin }: Props) {
  const { state, update, theme } = usePage();
  const readout = useRef<HTMLParagraphElement>(null);
  const read = (words: string): void => {
    if (readout.current) readout.current.textContent = words || HINT;
  };
  const strips = useMemo(
    () =>
      ([0, 1] as const).flatMap((side): ExportedStrip[] => {
        const one = comparison.explanations[side];
        const flow = comparison.flows[side];
        const name = `${names[side]}, ${one?.method ?? ""}`;
        return one
          ? [{ name, one, flow, target: flow.target ? formatTargetName(flow.target) : "the answer" }]
          : [];
      }),
    [comparison, names],
  );
  return (
    <section className="panel both-texts" aria-label="The text in both models">
      <div className="head">
        <h2>Words</h2>
        <MethodChoice
          value={state.methods[0] ?? ""}
          onChange={(method) => update({ methods: [method, ...state.methods.slice(1)] }, "replace")}
        />
      </div>
      {([0, 1] as const).map((side) => {
        const one = comparison.explanations[side];
        const prediction = comparison.predictions[side];
        const { target } = comparison.flows[side];
        return (
          <div key={side} className="one-text">
            <p className="whose">
              <Swatch of={side === 0 ? "a" : "b"} /> {names[side]}
              {prediction && <strong> {prediction.label}</strong>}
              {typeof prediction?.probability === "number" && (
                <span className="dim"> {formatPercent(prediction.probability)}</span>
              )}
            </p>
            {one ? (
              <>
                <TextStrip
                  explanations={comparison}
                  one={one}
                  flow={comparison.flows[side]}
                  asWords={state.words}
                  pinned={pinned}
                  theme={theme}
                  onPin={onPin}
                  onRead={read}
                />
                {target && <Legend one={one} target={target} theme={theme} />}
              </>
            ) : (
              <p className="empty">
                {prediction
                  ? `${state.methods[0] ?? "The method"} could not explain this.`
                  : "No head to predict with, so nothing to explain."}
              </p>
            )}
          </div>
        );
      })}
      <p className="dim readout" ref={readout}>
        {HINT}
      </p>
      {strips.length > 0 && (
        <StripExport
          explanations={comparison}
          strips={strips}
          asWords={state.words}
          caption={formatCaption({
            model: `${names[0]} and ${names[1]}`,
            text: joinTexts(comparison.input),
            method: state.methods[0] ?? null,
            date: formatToday(),
          })}
        />
      )}
    </section>
  );
}

const HINT = "The underline is where the traced flow ends. Choose a word to trace through it.";
