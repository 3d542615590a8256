/** Both models on one input: what they say, which words count, what flows, which heads changed. */

import { useRef } from "react";

import { pinned } from "../explain/pin";
import { useKeys } from "../explain/useKeys";
import { readable } from "../flow/readable";
import { useMethods } from "../explain/useMethods";
import { useWordFocus } from "../explain/useWordFocus";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/context";
import { useAsked } from "../shell/useAsked";
import type { CompareAsked } from "./asked";
import { BothPredictions } from "./BothPredictions";
import { BothTexts } from "./BothTexts";
import { FlowOfBoth } from "./FlowOfBoth";
import { ChangedTables, HeadChanges } from "./HeadChanges";
import { HeadMatrix } from "./HeadMatrix";
import { type Pair, shortened } from "./models";

interface Props {
  readonly asked: CompareAsked;
  readonly models: Pair;
  readonly names: readonly [string, string];
}

export function OneInput({ asked, models, names }: Props) {
  const page = usePage();
  const { source, session, state, update, announce } = page;
  const answer = useAsked(JSON.stringify([session.started, asked]), (asking) =>
    source.compare(asked, asking),
  );
  const compared = answer.value;
  const flow = compared?.flows[1] ?? null;
  const texts = useRef<HTMLDivElement>(null);
  const words = useWordFocus(texts, compared, flow, state.words);
  const methods = useMethods();
  useKeys(page, {
    layers: flow?.layers ?? 0,
    heads: flow?.heads ?? 0,
    coverage: readable(state.coverage, ...(compared?.flows ?? [])),
    methods,
    ...words,
    verify: () => announce("A path is verified in one model: go to Explain."),
    unselect: () => undefined,
  });
  if (answer.fault) return <FaultNote fault={answer.fault} onAgain={answer.again} />;
  if (!compared) return <p className="empty">Running both models …</p>;
  const chosen = state.token === null ? state.tokens : [...state.tokens, state.token];
  const pin = (tokens: readonly number[], add: boolean): void => update(pinned(state, { tokens }, add, flow));
  return (
    <div className="one-input" aria-busy={answer.pending}>
      {compared.warnings.length > 0 && (
        <ul className="warnings" aria-label="Warnings">
          {compared.warnings.map(({ message }) => (
            <li key={message}>{shortened(message, compared, names)}</li>
          ))}
        </ul>
      )}
      <div className="both-top" ref={texts}>
        <BothTexts
          compared={compared}
          names={names}
          pinned={chosen}
          onPin={({ tokens }, add) => pin(tokens, add)}
        />
        <BothPredictions compared={compared} names={names} />
      </div>
      <div className="both-middle">
        <section className="panel" aria-labelledby="flow-of-both">
          <h2 id="flow-of-both">Flow</h2>
          <FlowOfBoth compared={compared} names={names} onToken={(token, add) => pin([token], add)} />
        </section>
        <div className="beside">
          <HeadChanges compared={compared} names={names} />
          {state.head && (
            <HeadMatrix
              head={state.head}
              models={models}
              names={names}
              tokens={compared.tokens}
              text={asked.text}
              pair={asked.pair ?? null}
            />
          )}
          <ChangedTables compared={compared} names={names} />
        </div>
      </div>
    </div>
  );
}
