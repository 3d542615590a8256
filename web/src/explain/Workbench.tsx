/** Workbench page: requests and layout of the input, text or picture, generation, head, flow and trust panels. */

import { useCallback, useMemo, useRef, useState } from "react";

import type { TrustCardData, Verification } from "../api/types";
import type { VisibleFlow } from "../flow/visibleFlow";
import type { Hit } from "../render/scene";
import { usePage } from "../shell/pageContext";
import { formatToday } from "../shell/today";
import { useJobCache } from "../shell/useJobCache";
import { useLinkDefaults } from "../shell/useLinkDefaults";
import "./explain.css";
import { WorkbenchHeader } from "./WorkbenchHeader";
import { EdgeDetails } from "./EdgeDetails";
import { FlowPanel } from "./FlowPanel";
import { GenerationPanel } from "./GenerationPanel";
import { HeadMap } from "./HeadMap";
import { HeadMatrix } from "./HeadMatrix";
import { PatchPanel } from "./PatchPanel";
import { TextPanel } from "./TextPanel";
import { TrustCard } from "./TrustCard";
import { PathVerification } from "./PathVerification";
import { buildCaptions } from "./captions";
import { findFields } from "./inputFields";
import { toggleHead } from "./queryLanguage";
import { useWorkbenchData } from "./useWorkbenchData";
import { useWorkbenchKeys } from "./useWorkbenchKeys";
import { useMethods } from "./useMethods";
import { useSelection } from "./useSelection";
import { useWordFocus } from "./useWordFocus";

const NOT_YET = "The answer to the new question is not there yet.";

/** Show the panels of the workbench. */
export function Workbench() {
  const page = usePage();
  const { source, session, state, update } = page;
  const { input, explainRequest, flowRequest, visible, queryContext, noFlow, missing, entry } =
    useWorkbenchData();
  // The previous answer does not belong to the request that failed.
  const explanations = explainRequest.fault ? null : explainRequest.value;
  const methods = useMethods();
  const textPlace = useRef<HTMLElement>(null);
  const words = useWordFocus(textPlace, explanations, flowRequest.value, state.words);
  const [picked, setPicked] = useState<{ readonly hit: Hit; readonly of: unknown } | null>(null);
  // A selected edge is an index into the visible list, so it is valid for that list only.
  const selected = picked !== null && picked.of === flowRequest.value ? picked.hit : null;
  const reach = source.reach ?? null;
  useLinkDefaults(visible && !flowRequest.pending && !state.classic ? { coverage: visible.coverage } : {});

  const trust = useJobCache<TrustCardData>(JSON.stringify(["trust", session.started, input, state.methods]));
  const { path, key } = useMemo(() => buildPath(visible), [visible]);
  const verification = useJobCache<Verification>(JSON.stringify(["verify", session.started, input]) + key);
  const whyNoTrust = (reach && !reach.trust ? reach.why : null) ?? (explainRequest.pending ? NOT_YET : null);
  const whyNoVerify =
    (reach && !reach.verify ? reach.why : null) ??
    noFlow ??
    (flowRequest.pending || visible === null ? NOT_YET : path.length === 0 ? "No edge is shown." : null);
  const verify = (): void => {
    if (whyNoVerify === null)
      verification.run((options) => source.verify({ input, edges: path, draws: 30, seed: 0 }, options));
  };
  useWorkbenchKeys(page, {
    layers: queryContext.layers,
    heads: queryContext.heads,
    coverage: visible?.coverage ?? 0.5,
    methods,
    ...words,
    verify,
    unselect: () => setPicked(null),
  });
  useSelection(visible);

  const hit = useCallback(
    (newHit: Hit, { add }: { readonly add: boolean }) => {
      if (newHit.kind === "head")
        update(
          add
            ? { heads: toggleHead(state.heads, [newHit.layer, newHit.head]) }
            : { head: [newHit.layer, newHit.head] },
        );
      else if (newHit.kind === "token" && add) update({ token: newHit.token, direction: "through" });
      else setPicked({ hit: newHit, of: flowRequest.value });
    },
    [state.heads, flowRequest.value, update],
  );
  const captions = buildCaptions(state, input, explanations, visible, queryContext, formatToday());
  // A model without a classification head has no target, but has attention.
  const isInside =
    explanations !== null ||
    (explainRequest.fault && flowRequest.value && !flowRequest.fault && !flowRequest.pending);
  const matrix = noFlow === null && state.head && isInside && (
    <HeadMatrix input={input} head={state.head} tokens={queryContext.tokens} caption={captions.matrix} />
  );
  const picture = explanations?.picture ?? null;
  // A matrix of many tokens needs the wide column.
  const isLong = queryContext.tokens.length > 24;
  // Answers arrive one by one: the flow may still be of the previous text.
  const flow = flowRequest.value?.tokens.length === explanations?.tokens.length ? flowRequest.value : null;
  return (
    <div className={noFlow === null ? "bench" : "bench closed"}>
      <h1 className="unseen">Explain</h1>
      <WorkbenchHeader input={input} request={explainRequest} methods={methods} missing={missing} />
      <div className="texts">
        {picture && explanations ? (
          <PatchPanel
            input={input}
            explanations={explanations}
            picture={picture}
            methods={methods}
            pending={explainRequest.pending}
            caption={captions.text}
          />
        ) : missing !== null && findFields(entry).picture ? null : (
          <TextPanel
            explanations={explanations}
            flow={flow}
            methods={methods}
            pending={explainRequest.pending}
            caption={captions.text}
            place={textPlace}
          />
        )}
        {state.generate !== null && missing === null && findFields(entry).generate && (
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
            request={flowRequest}
            visible={visible}
            queryContext={queryContext}
            disabledReason={noFlow}
            caption={captions.flow}
            selected={selected}
            onHit={hit}
          />
          {isLong && matrix}
          {visible && (
            <EdgeDetails
              visible={visible}
              selected={selected}
              isStale={flowRequest.pending}
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
            disabledReason={whyNoTrust}
            onTest={() =>
              trust.run((options) => source.trust({ input, methods: [...state.methods] }, options))
            }
          />
          {noFlow === null && (
            <PathVerification
              work={verification}
              edges={flowRequest.pending ? null : path.length}
              caption={captions.flow}
              disabledReason={whyNoVerify}
              onVerify={verify}
            />
          )}
        </div>
      )}
    </div>
  );
}

type Edge = [layer: number, head: number, source: number, to: number];

/** List the visible edges as the verification takes them, with a key of that set. */
function buildPath(visible: VisibleFlow | null): { readonly path: Edge[]; readonly key: string } {
  const path = (visible?.edges ?? []).map(({ layer, head, source, to }): Edge => [layer, head, source, to]);
  return { path, key: path.join(" ") };
}
