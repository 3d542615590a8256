/** The text twice: tinted by what each model's words count for it, underlined by where its flow ends. */

import { useRef } from "react";

import type { Compared } from "../api/types";
import { TextStrip } from "../explain/TextStrip";
import type { Unit } from "../explain/units";
import { MethodChoice } from "../shell/MethodChoice";
import { usePage } from "../shell/context";
import { percent } from "../shell/figures";
import { Swatch } from "./Swatch";

interface Props {
  readonly compared: Compared;
  readonly names: readonly [string, string];
  readonly pinned: readonly number[];
  readonly onPin: (unit: Unit, add: boolean) => void;
}

export function BothTexts({ compared, names, pinned, onPin }: Props) {
  const { state, update, theme } = usePage();
  const readout = useRef<HTMLParagraphElement>(null);
  const read = (words: string): void => {
    if (readout.current) readout.current.textContent = words || HINT;
  };
  return (
    <section className="panel both-texts" aria-label="The text in both models">
      <h2>
        Words
        <MethodChoice
          value={state.methods[0] ?? ""}
          onChange={(method) => update({ methods: [method, ...state.methods.slice(1)] }, "replace")}
        />
      </h2>
      {([0, 1] as const).map((side) => {
        const one = compared.explanations[side];
        const said = compared.predictions[side];
        return (
          <div key={side} className="one-text">
            <p className="whose">
              <Swatch of={side === 0 ? "a" : "b"} /> {names[side]}
              {said && <strong> {said.label}</strong>}
              {typeof said?.probability === "number" && (
                <span className="dim"> {percent(said.probability)}</span>
              )}
            </p>
            {one ? (
              <TextStrip
                explanations={compared}
                one={one}
                flow={compared.flows[side]}
                asWords={state.words}
                pinned={pinned}
                theme={theme}
                onPin={onPin}
                onRead={read}
              />
            ) : (
              <p className="empty">
                {said
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
    </section>
  );
}

const HINT =
  "Blue speaks for the answer, vermillion against it; the underline is where the traced flow ends. Choose a word to trace through it.";
