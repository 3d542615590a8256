/** Text panel: a text strip, legend and notes for each chosen method, export, and agreement of the methods. */

import { type RefObject, useCallback, useEffect, useMemo, useRef } from "react";

import type { Explanations, Flow } from "../api/types";
import { usePage } from "../shell/pageContext";
import { HelpLink } from "../shell/HelpLink";
import { AgreementTable } from "./AgreementTable";
import { Legend, formatTargetName } from "./Legend";
import { MethodSwitch } from "./MethodSwitch";
import { StaleNote, getPanelClass } from "./StaleNote";
import { StripExport } from "./StripExport";
import { TextStrip } from "./TextStrip";
import { Warnings } from "./Warnings";
import { togglePin } from "./wordPins";
import type { TextFeature } from "./textFeatures";
import { describeWordScores } from "./wordScoreNote";

interface Props {
  readonly explanations: Explanations | null; // null: pending or refused; the method switch stays
  readonly flow: Flow | null;
  readonly methods: readonly string[];
  readonly pending: boolean;
  readonly caption: string;
  readonly place: RefObject<HTMLElement | null>;
}

/** Show the text strips, their legends and the agreement of methods. */
export function TextPanel({ explanations, flow, methods, pending, caption, place }: Props) {
  const { state, update, theme } = usePage();
  const reading = useRef<HTMLParagraphElement>(null);
  const onRead = useCallback((words: string) => {
    if (reading.current) reading.current.textContent = words || "\u00a0";
  }, []);
  const latest = useRef({ state, flow });
  useEffect(() => {
    latest.current = { state, flow };
  });
  const onPin = useCallback(
    (feature: TextFeature, add: boolean) =>
      update(togglePin(latest.current.state, feature, add, latest.current.flow)),
    [update],
  );
  const { token, tokens } = state;
  const chosen = useMemo(() => (token === null ? tokens : [...tokens, token]), [token, tokens]);
  const isStale = pending && explanations !== null;
  const exported = useMemo(
    () =>
      (explanations?.explanations ?? []).map((one) => ({
        name: one.method,
        one,
        flow,
        target: explanations ? formatTargetName(explanations.target) : "",
      })),
    [explanations, flow],
  );
  return (
    <section
      className={getPanelClass("text", isStale)}
      aria-labelledby="text"
      aria-busy={pending}
      ref={place}
    >
      <div className="head">
        <h2 id="text">Text</h2>
        <MethodSwitch names={methods} chosen={state.methods} onChange={(next) => update({ methods: next })} />
        <label className="field">
          <input type="checkbox" checked={state.words} onChange={() => update({ words: !state.words })} />{" "}
          words
        </label>
        <StaleNote isStale={isStale} />
      </div>
      {explanations && <Warnings explanations={explanations} />}
      {explanations?.explanations.map((one, index) => (
        <div key={one.method} className="one">
          <p className="method">
            <HelpLink kind="method" name={one.method} />
            {state.methods.length > 1 && (
              <button
                type="button"
                className="small"
                aria-label={`Take ${one.method} away`}
                onClick={() => update({ methods: state.methods.filter((each) => each !== one.method) })}
              >
                ×
              </button>
            )}
          </p>
          <TextStrip
            explanations={explanations}
            one={one}
            flow={flow}
            asWords={state.words}
            pinned={chosen}
            theme={theme}
            onPin={onPin}
            onRead={onRead}
          />
          <Legend
            one={one}
            target={explanations.target}
            theme={theme}
            underlined={index === 0 && flow !== null}
          />
          {state.words && describeWordScores(explanations, one) && (
            <p className="dim">{describeWordScores(explanations, one)}</p>
          )}
        </div>
      ))}
      {explanations && (
        <>
          <div className="under">
            <StripExport
              explanations={explanations}
              strips={exported}
              asWords={state.words}
              caption={caption}
            />
            <p className="reading" ref={reading}>
              {"\u00a0"}
            </p>
          </div>
          <AgreementTable agreement={explanations.agreement} caption={caption} />
        </>
      )}
    </section>
  );
}
