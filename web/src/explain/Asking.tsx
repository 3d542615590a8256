/** The head of the workbench: what is asked, of which target, and what became of it. */

import type { Explanations, Input } from "../api/types";
import { RowWalk } from "../data/RowWalk";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/context";
import type { Asked } from "../shell/useAsked";
import { AskForm } from "./AskForm";
import { TargetSwitch } from "./TargetSwitch";
import { FORGET } from "./asked";
import { useFallback } from "./useFallback";

interface Props {
  readonly input: Input;
  readonly asked: Asked<Explanations>;
  readonly methods: readonly string[];
}

export function Asking({ input, asked, methods }: Props) {
  const { source, session, state, update } = usePage();
  const { fault, pending, again } = asked;
  const explanations = fault ? null : asked.value;
  const fallback = useFallback(fault, methods);
  const reach = source.reach ?? null;
  return (
    <div className="asking">
      <RowWalk />
      <AskForm
        key={JSON.stringify([input.text, input.pair])}
        input={input}
        session={session}
        pending={pending}
        whyNot={reach && !reach.input ? reach.why : null}
        onAsk={(text, pair) => update({ ...FORGET, text, pair })}
        onModel={(model) => update({ ...FORGET, model })}
      />
      {explanations && (
        <div className={pending ? "stale" : undefined}>
          <TargetSwitch
            explanations={explanations}
            of={state.of}
            target={state.target}
            whyNot={reach && !reach.target ? reach.why : null}
            onChange={update}
          />
        </div>
      )}
      {fallback.words && (
        <p className="notice" role="status">
          <span>{fallback.words}</span>
          <button type="button" className="small" onClick={fallback.dismiss}>
            Understood
          </button>
        </p>
      )}
      {fault && <FaultNote fault={fault} onAgain={again} />}
      {fault && state.target !== null && (
        <p>
          <button type="button" className="small" onClick={() => update({ target: null })}>
            Explain what is predicted, instead of {state.target}
          </button>
        </p>
      )}
      {!explanations && !fault && <p className="dim">The model is being asked …</p>}
    </div>
  );
}
