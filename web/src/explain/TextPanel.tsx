/** The text under every method that was chosen, one below the other. */

import { type RefObject, useCallback, useEffect, useMemo, useRef } from "react";

import type { Explanations, Flow } from "../api/types";
import { usePage } from "../shell/context";
import { Legend } from "./Legend";
import { AgreementList, MethodSwitch } from "./Methods";
import { TextStrip } from "./TextStrip";
import { Warnings } from "./Warnings";
import { pinned } from "./pin";
import type { Unit } from "./units";

interface Props {
  readonly explanations: Explanations;
  readonly flow: Flow | null;
  readonly methods: readonly string[];
  readonly pending: boolean;
  readonly place: RefObject<HTMLElement | null>;
}

export function TextPanel({ explanations, flow, methods, pending, place }: Props) {
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
    (unit: Unit, add: boolean) => update(pinned(latest.current.state, unit, add, latest.current.flow)),
    [update],
  );
  const { token, tokens } = state;
  const chosen = useMemo(() => (token === null ? tokens : [...tokens, token]), [token, tokens]);
  const first = explanations.explanations[0];
  return (
    <section className="panel text" aria-labelledby="text" aria-busy={pending} ref={place}>
      <div className="head">
        <h2 id="text">Text</h2>
        <MethodSwitch names={methods} chosen={state.methods} onChange={(next) => update({ methods: next })} />
        <label className="field">
          <input type="checkbox" checked={state.words} onChange={() => update({ words: !state.words })} />{" "}
          words
        </label>
      </div>
      <Warnings explanations={explanations} />
      {explanations.explanations.map((one) => (
        <div key={one.method} className="one">
          {state.methods.length > 1 && (
            <p className="method">
              {one.method}
              <button
                type="button"
                className="small"
                aria-label={`Take ${one.method} away`}
                onClick={() => update({ methods: state.methods.filter((each) => each !== one.method) })}
              >
                ×
              </button>
            </p>
          )}
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
        </div>
      ))}
      <p className="reading" ref={reading}>
        {"\u00a0"}
      </p>
      {first && <Legend one={first} target={explanations.target} theme={theme} />}
      <AgreementList agreement={explanations.agreement} />
    </section>
  );
}
