/** The head of the workbench: what is asked, of which target, and what became of it. */

import type { Explanations, Input } from "../api/types";
import { RowWalk } from "../data/RowWalk";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/context";
import { usualMethod } from "../shell/resolved";
import type { Asked } from "../shell/useAsked";
import { AskForm } from "./AskForm";
import { Entities } from "./Entities";
import { TargetSwitch } from "./TargetSwitch";
import { FORGET, FORGET_FIELDS, NO_TEXT } from "./asked";
import { isSample } from "./fields";
import { useFallback } from "./useFallback";

interface Props {
  readonly input: Input;
  readonly asked: Asked<Explanations>;
  readonly methods: readonly string[];
  readonly missing: string | null; // what is to be given first
}

export function Asking({ input, asked, methods, missing }: Props) {
  const { source, session, state, update } = usePage();
  const { fault, pending, again } = asked;
  const explanations = fault ? null : asked.value;
  const question = JSON.stringify({ ...input, target: null, of: null, entity: null });
  const fallback = useFallback(fault, methods, question);
  const reach = source.reach ?? null;
  const task = session.models.find(({ id }) => id === input.model)?.task ?? null;
  return (
    <div className="asking">
      <RowWalk />
      <AskForm
        key={`${question} ${state.generate}`}
        input={input}
        session={session}
        pending={pending}
        whyNot={reach && !reach.input ? reach.why : null}
        onAsk={(draft) => update({ ...FORGET, ...draft })}
        tokens={state.generate}
        onGenerate={(draft, generate) => update({ ...FORGET, ...draft, generate })}
        // What one has chosen is asked of the other model too; a sample and the usual method give way to that model's.
        onModel={(model) =>
          update({
            ...FORGET,
            ...FORGET_FIELDS,
            ...(isSample(state, session) ? NO_TEXT : {}),
            ...(state.methods.join() === usualMethod(input.model, session) ? { methods: [] } : {}),
            model,
          })
        }
      />
      {explanations && (
        <div className={pending ? "stale" : undefined}>
          <Entities explanations={explanations} chosen={state.entity} onChange={update} />
          <TargetSwitch
            explanations={explanations}
            of={state.of}
            target={state.target}
            task={task}
            isAnswer={Boolean(input.answer)}
            // Labels of one's own are each a sentence, and a text for the model; a picture is held against all at once.
            isAlone={Boolean(input.labels?.length) && task !== "similarity"}
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
      {missing !== null && <p className="dim">{missing}</p>}
      {!explanations && !fault && missing === null && <p className="dim">The model is being asked …</p>}
    </div>
  );
}
