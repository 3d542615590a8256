/** Why? The text, the heads, the flow, and whether to believe it. Everything here follows from the one state. */

import { useCallback, useMemo, useRef, useState } from "react";

import type { TrustCard as Card, Verified } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import { caption } from "../render/caption";
import type { Hit } from "../render/scene";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/context";
import { useKeptJob } from "../shell/useKeptJob";
import "./explain.css";
import { AskForm } from "./AskForm";
import { Details } from "./Details";
import { FlowPanel } from "./FlowPanel";
import { HeadMap } from "./HeadMap";
import { HeadMatrix } from "./HeadMatrix";
import { TargetSwitch } from "./TargetSwitch";
import { TextPanel } from "./TextPanel";
import { TrustCard } from "./TrustCard";
import { VerifyPath } from "./VerifyPath";
import { FORGET } from "./asked";
import { toggled } from "./query";
import { useNumbers } from "./useBench";
import { useKeys } from "./useKeys";
import { useMethods } from "./useMethods";
import { useSelection } from "./useSelection";
import { useWordFocus } from "./useWordFocus";

export function Workbench() {
  const page = usePage();
  const { source, session, state, update } = page;
  const { input, explained, traced, shown, ground, noFlow } = useNumbers();
  // What stands there from before belongs to another question than the one that failed.
  const explanations = explained.fault ? null : explained.value;
  const methods = useMethods();
  const textPlace = useRef<HTMLElement>(null);
  const words = useWordFocus(textPlace, explanations, traced.value, state.words);
  const [picked, setPicked] = useState<{ readonly hit: Hit; readonly of: unknown } | null>(null);
  // An edge is a place in the list that is shown; in another list it is another edge.
  const selected = picked !== null && picked.of === traced.value ? picked.hit : null;
  const reach = source.reach ?? null;

  const trust = useKeptJob<Card>(JSON.stringify(["trust", session.started, input, state.methods]));
  const edges = shown?.edges ?? [];
  const { path, key } = useMemo(() => pathOf(shown), [shown]);
  const verified = useKeptJob<Verified>(JSON.stringify(["verify", session.started, input]) + key);
  const whyNoTrust = reach && !reach.trust ? reach.why : null;
  const whyNoVerify = (reach && !reach.verify ? reach.why : null) ?? noFlow;
  const verify = (): void => {
    if (path.length > 0 && whyNoVerify === null)
      verified.run((asking) => source.verify({ input, edges: path, draws: 30, seed: 0 }, asking));
  };
  useKeys(page, {
    layers: ground.layers,
    heads: ground.heads,
    coverage: shown?.coverage ?? 0.5,
    methods,
    ...words,
    verify,
  });
  useSelection(shown);

  const hit = useCallback(
    (found: Hit, { add }: { readonly add: boolean }) => {
      if (found.kind === "head")
        update(
          add
            ? { heads: toggled(state.heads, [found.layer, found.head]) }
            : { head: [found.layer, found.head] },
        );
      else if (found.kind === "token" && add) update({ token: found.token, direction: "through" });
      else setPicked({ hit: found, of: traced.value });
    },
    [state.heads, traced.value, update],
  );
  const facts = {
    model: explanations?.model.name ?? input.model,
    revision: explanations?.model.revision ?? null,
  };
  const plainCaption = caption({ ...facts, method: state.methods.join(", ") });
  const flowCaption = caption({
    ...facts,
    weight: state.weight,
    coverage: shown?.coverage ?? null,
    hidden: shown && shown.flow.whole > 0 ? 1 - (shown.covered * shown.flow.total) / shown.flow.whole : null,
  });
  // A model without a head has nothing to explain, and still attends.
  const isInside =
    explanations !== null || (explained.fault && traced.value && !traced.fault && !traced.pending);
  const matrix = noFlow === null && state.head && isInside && (
    <HeadMatrix input={input} head={state.head} tokens={ground.tokens} caption={plainCaption} />
  );
  // A map of many tokens needs the wide column.
  const isLong = ground.tokens.length > 24;
  // While answers come in one after the other, the flow may still be that of the text before.
  const flow = traced.value?.tokens.length === explanations?.tokens.length ? traced.value : null;
  return (
    <div className="bench">
      <h1 className="unseen">Explain</h1>
      <div className="asking">
        <AskForm
          key={JSON.stringify([input.text, input.pair])}
          input={input}
          session={session}
          pending={explained.pending}
          whyNot={reach && !reach.input ? reach.why : null}
          onAsk={(text, pair) => update({ ...FORGET, text, pair })}
          onModel={(model) => update({ ...FORGET, model })}
        />
        {explanations && (
          <TargetSwitch
            explanations={explanations}
            of={state.of}
            target={state.target}
            whyNot={reach && !reach.target ? reach.why : null}
            onChange={update}
          />
        )}
        {explained.fault && <FaultNote fault={explained.fault} onAgain={explained.again} />}
        {!explanations && !explained.fault && <p className="dim">The model is being asked …</p>}
      </div>
      {explanations && (
        <TextPanel
          explanations={explanations}
          flow={flow}
          methods={methods}
          pending={explained.pending}
          place={textPlace}
        />
      )}
      <div className="left">
        {noFlow === null && isInside && <HeadMap input={input} caption={plainCaption} />}
        {!isLong && matrix}
      </div>
      {isInside && (
        <div className="middle">
          <FlowPanel
            asked={traced}
            shown={shown}
            ground={ground}
            whyNot={noFlow}
            caption={flowCaption}
            selected={selected}
            onHit={hit}
          />
          {isLong && matrix}
          {shown && (
            <Details
              shown={shown}
              selected={selected}
              onEdge={(index) => hit({ kind: "edge", index }, { add: false })}
            />
          )}
        </div>
      )}
      {explanations && (
        <div className="side">
          <TrustCard
            work={trust}
            methods={state.methods}
            caption={plainCaption}
            whyNot={whyNoTrust}
            onTest={() => trust.run((asking) => source.trust({ input, methods: [...state.methods] }, asking))}
          />
          <VerifyPath
            work={verified}
            edges={edges.length}
            caption={flowCaption}
            whyNot={whyNoVerify}
            onVerify={verify}
          />
        </div>
      )}
    </div>
  );
}

type Edge = [layer: number, head: number, source: number, to: number];

/** The shown edges as the test takes them, and a name for that very set. */
function pathOf(shown: ShownFlow | null): { readonly path: Edge[]; readonly key: string } {
  const path = (shown?.edges ?? []).map(({ layer, head, source, to }): Edge => [layer, head, source, to]);
  return { path, key: path.join(" ") };
}
