/** Comparison of two models on one input: predictions, words, flow, heads. */

import { useRef } from "react";

import { togglePin } from "../explain/wordPins";
import { useWorkbenchKeys } from "../explain/useWorkbenchKeys";
import { chooseCoverage } from "../flow/defaultCoverage";
import { useMethods } from "../explain/useMethods";
import { useWordFocus } from "../explain/useWordFocus";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/pageContext";
import { useRequest } from "../shell/useRequest";
import type { CompareRequest } from "./compareRequest";
import { BothPredictions } from "./BothPredictions";
import { BothTexts } from "./BothTexts";
import { BothFlows } from "./BothFlows";
import { ChangeTables, HeadChanges } from "./HeadChanges";
import { BothHeadMatrices } from "./BothHeadMatrices";
import { type ModelPair, shortenModelNames } from "./modelPair";

interface Props {
  readonly request: CompareRequest;
  readonly models: ModelPair;
  readonly names: readonly [string, string];
}

/** Request the comparison of one input and show its parts. */
export function InputComparison({ request, models, names }: Props) {
  const page = usePage();
  const { source, session, state, update, announce } = page;
  const answer = useRequest(JSON.stringify([session.started, request]), (options) =>
    source.compare(request, options),
  );
  const comparison = answer.value;
  const flow = comparison?.flows[1] ?? null;
  const texts = useRef<HTMLDivElement>(null);
  const words = useWordFocus(texts, comparison, flow, state.words);
  const methods = useMethods();
  useWorkbenchKeys(page, {
    layers: flow?.layers ?? 0,
    heads: flow?.heads ?? 0,
    coverage: chooseCoverage(state.coverage, ...(comparison?.flows ?? [])),
    methods,
    ...words,
    verify: () => announce("A path is verified in one model: go to Explain."),
    unselect: () => undefined,
  });
  if (answer.fault) return <FaultNote fault={answer.fault} onRetry={answer.retry} />;
  if (!comparison) return <p className="empty">Running both models …</p>;
  const chosen = state.token === null ? state.tokens : [...state.tokens, state.token];
  const pin = (tokens: readonly number[], add: boolean): void =>
    update(togglePin(state, { tokens }, add, flow));
  return (
    <div className="one-input" aria-busy={answer.pending}>
      {comparison.warnings.length > 0 && (
        <ul className="warnings" aria-label="Warnings">
          {comparison.warnings.map(({ message }) => (
            <li key={message}>{shortenModelNames(message, comparison, names)}</li>
          ))}
        </ul>
      )}
      <div className="both-top" ref={texts}>
        <BothTexts
          comparison={comparison}
          names={names}
          pinned={chosen}
          onPin={({ tokens }, add) => pin(tokens, add)}
        />
        <BothPredictions comparison={comparison} names={names} />
      </div>
      <div className="both-middle">
        <section className="panel" aria-labelledby="flow-of-both">
          <h2 id="flow-of-both">Flow</h2>
          <BothFlows comparison={comparison} names={names} onToken={(token, add) => pin([token], add)} />
        </section>
        <div className="beside">
          <HeadChanges comparison={comparison} names={names} />
          {state.head && (
            <BothHeadMatrices
              head={state.head}
              models={models}
              names={names}
              tokens={comparison.tokens}
              text={request.text}
              pair={request.pair ?? null}
            />
          )}
          <ChangeTables comparison={comparison} names={names} />
        </div>
      </div>
    </div>
  );
}
