/** Header of the workbench: input form, entities, target, and notes on fallbacks, faults and missing input. */

import type { Explanations, Input } from "../api/types";
import { RowNavigation } from "../data/RowNavigation";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/pageContext";
import { getDefaultMethod } from "../shell/stateDefaults";
import type { RequestState } from "../shell/useRequest";
import { InputForm } from "./InputForm";
import { Entities } from "./Entities";
import { TargetSwitch } from "./TargetSwitch";
import { RESET_SELECTION, RESET_FIELDS, RESET_TEXT } from "./inputRequest";
import { isSample } from "./inputFields";
import { useFallback } from "./useFallback";

interface Props {
  readonly input: Input;
  readonly request: RequestState<Explanations>;
  readonly methods: readonly string[];
  readonly missing: string | null; // input that is missing
}

/** Show the form, the target, and notes on a request that failed or is pending. */
export function WorkbenchHeader({ input, request, methods, missing }: Props) {
  const { source, session, state, update } = usePage();
  const { fault, pending, retry } = request;
  const explanations = fault ? null : request.value;
  const question = JSON.stringify({ ...input, target: null, of: null, entity: null });
  const fallback = useFallback(fault, methods, question);
  const reach = source.reach ?? null;
  const task = session.models.find(({ id }) => id === input.model)?.task ?? null;
  return (
    <div className="asking">
      <RowNavigation />
      <InputForm
        key={`${question} ${state.generate}`}
        input={input}
        session={session}
        pending={pending}
        disabledReason={reach && !reach.input ? reach.why : null}
        onAsk={(draft) => update({ ...RESET_SELECTION, ...draft })}
        tokens={state.generate}
        onGenerate={(draft, generate) => update({ ...RESET_SELECTION, ...draft, generate })}
        // The other model keeps a typed text and chosen methods; samples and default methods become its own.
        onModel={(model) =>
          update({
            ...RESET_SELECTION,
            ...RESET_FIELDS,
            ...(isSample(state, session) ? RESET_TEXT : {}),
            ...(state.methods.join() === getDefaultMethod(input.model, session) ? { methods: [] } : {}),
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
            // Typed labels are scored one sentence at a time; a picture is compared with all labels at once.
            isAlone={Boolean(input.labels?.length) && task !== "similarity"}
            disabledReason={reach && !reach.target ? reach.why : null}
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
      {fault && <FaultNote fault={fault} onRetry={retry} />}
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
