/** The text twice: tinted by what each model's words count for it, underlined by where its flow ends. */

import { useMemo, useRef } from "react";

import type { Compared } from "../api/types";
import { Legend, nameOf } from "../explain/Legend";
import { type ExportedStrip, StripExport } from "../explain/StripExport";
import { TextStrip } from "../explain/TextStrip";
import type { Unit } from "../explain/units";
import { caption } from "../render/caption";
import { MethodChoice } from "../shell/MethodChoice";
import { usePage } from "../shell/context";
import { percent } from "../shell/figures";
import { today } from "../shell/today";
import { bothTexts } from "./models";
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
  const strips = useMemo(
    () =>
      ([0, 1] as const).flatMap((side): ExportedStrip[] => {
        const one = compared.explanations[side];
        const flow = compared.flows[side];
        const name = `${names[side]}, ${one?.method ?? ""}`;
        return one ? [{ name, one, flow, target: flow.target ? nameOf(flow.target) : "the answer" }] : [];
      }),
    [compared, names],
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
        const one = compared.explanations[side];
        const said = compared.predictions[side];
        const { target } = compared.flows[side];
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
              <>
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
                {target && <Legend one={one} target={target} theme={theme} />}
              </>
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
      {strips.length > 0 && (
        <StripExport
          explanations={compared}
          strips={strips}
          asWords={state.words}
          caption={caption({
            model: `${names[0]} and ${names[1]}`,
            text: bothTexts(compared.input),
            method: state.methods[0] ?? null,
            date: today(),
          })}
        />
      )}
    </section>
  );
}

const HINT = "The underline is where the traced flow ends. Choose a word to trace through it.";
