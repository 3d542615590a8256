/** Why? The text, the heads, the flow, and whether to believe it. Everything here follows from the one state. */

import { useCallback, useMemo, useRef, useState } from "react";

import type { TrustCard as Card, Verified } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import type { Hit } from "../render/scene";
import { usePage } from "../shell/context";
import { today } from "../shell/today";
import { useKeptJob } from "../shell/useKeptJob";
import { useSettled } from "../shell/useSettled";
import "./explain.css";
import { Asking } from "./Asking";
import { Details } from "./Details";
import { FlowPanel } from "./FlowPanel";
import { GenerationPanel } from "./GenerationPanel";
import { HeadMap } from "./HeadMap";
import { HeadMatrix } from "./HeadMatrix";
import { PatchPanel } from "./PatchPanel";
import { TextPanel } from "./TextPanel";
import { TrustCard } from "./TrustCard";
import { VerifyPath } from "./VerifyPath";
import { captionsOf } from "./captions";
import { fieldsOf } from "./fields";
import { toggled } from "./query";
import { useNumbers } from "./useBench";
import { useKeys } from "./useKeys";
import { useMethods } from "./useMethods";
import { useSelection } from "./useSelection";
import { useWordFocus } from "./useWordFocus";

const NOT_YET = "The answer to the new question is not there yet.";

export function Workbench() {
  const page = usePage();
  const { source, session, state, update } = page;
  const { input, explained, traced, shown, ground, noFlow, missing, entry } = useNumbers();
  // What stands there from before belongs to another question than the one that failed.
  const explanations = explained.fault ? null : explained.value;
  const methods = useMethods();
  const textPlace = useRef<HTMLElement>(null);
  const words = useWordFocus(textPlace, explanations, traced.value, state.words);
  const [picked, setPicked] = useState<{ readonly hit: Hit; readonly of: unknown } | null>(null);
  // An edge is a place in the list that is shown; in another list it is another edge.
  const selected = picked !== null && picked.of === traced.value ? picked.hit : null;
  const reach = source.reach ?? null;
  useSettled(shown && !traced.pending && !state.classic ? { coverage: shown.coverage } : {});

  const trust = useKeptJob<Card>(JSON.stringify(["trust", session.started, input, state.methods]));
  const { path, key } = useMemo(() => pathOf(shown), [shown]);
  const verified = useKeptJob<Verified>(JSON.stringify(["verify", session.started, input]) + key);
  const whyNoTrust = (reach && !reach.trust ? reach.why : null) ?? (explained.pending ? NOT_YET : null);
  const whyNoVerify =
    (reach && !reach.verify ? reach.why : null) ??
    noFlow ??
    (traced.pending || shown === null ? NOT_YET : path.length === 0 ? "No edge is shown." : null);
  const verify = (): void => {
    if (whyNoVerify === null)
      verified.run((asking) => source.verify({ input, edges: path, draws: 30, seed: 0 }, asking));
  };
  useKeys(page, {
    layers: ground.layers,
    heads: ground.heads,
    coverage: shown?.coverage ?? 0.5,
    methods,
    ...words,
    verify,
    unselect: () => setPicked(null),
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
  const captions = captionsOf(state, input, explanations, shown, ground, today());
  // A model without a head has nothing to explain, and still attends.
  const isInside =
    explanations !== null || (explained.fault && traced.value && !traced.fault && !traced.pending);
  const matrix = noFlow === null && state.head && isInside && (
    <HeadMatrix input={input} head={state.head} tokens={ground.tokens} caption={captions.matrix} />
  );
  const picture = explanations?.picture ?? null;
  // A map of many tokens needs the wide column.
  const isLong = ground.tokens.length > 24;
  // While answers come in one after the other, the flow may still be that of the text before.
  const flow = traced.value?.tokens.length === explanations?.tokens.length ? traced.value : null;
  return (
    <div className={noFlow === null ? "bench" : "bench closed"}>
      <h1 className="unseen">Explain</h1>
      <Asking input={input} asked={explained} methods={methods} missing={missing} />
      <div className="texts">
        {picture && explanations ? (
          <PatchPanel
            input={input}
            explanations={explanations}
            picture={picture}
            methods={methods}
            pending={explained.pending}
            caption={captions.text}
          />
        ) : missing !== null && fieldsOf(entry).picture ? null : (
          <TextPanel
            explanations={explanations}
            flow={flow}
            methods={methods}
            pending={explained.pending}
            caption={captions.text}
            place={textPlace}
          />
        )}
        {state.generate !== null && missing === null && fieldsOf(entry).generate && (
          <GenerationPanel input={input} tokens={state.generate} caption={captions.text} />
        )}
      </div>
      <div className="left">
        {noFlow === null && isInside && <HeadMap input={input} caption={captions.heads} />}
        {!isLong && matrix}
      </div>
      {isInside && (
        <div className="middle">
          <FlowPanel
            asked={traced}
            shown={shown}
            ground={ground}
            whyNot={noFlow}
            caption={captions.flow}
            selected={selected}
            onHit={hit}
          />
          {isLong && matrix}
          {shown && (
            <Details
              shown={shown}
              selected={selected}
              isOld={traced.pending}
              caption={captions.flow}
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
            caption={captions.text}
            whyNot={whyNoTrust}
            onTest={() => trust.run((asking) => source.trust({ input, methods: [...state.methods] }, asking))}
          />
          {noFlow === null && (
            <VerifyPath
              work={verified}
              edges={traced.pending ? null : path.length}
              caption={captions.flow}
              whyNot={whyNoVerify}
              onVerify={verify}
            />
          )}
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
