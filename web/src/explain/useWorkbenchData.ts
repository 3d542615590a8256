/** Hook that requests the workbench's explanations and flow, and derives visible edges and query context. */

import { useMemo } from "react";

import type { Explanations, Flow, Input, ModelEntry } from "../api/types";
import { chooseCoverage } from "../flow/defaultCoverage";
import { type VisibleFlow, selectVisible } from "../flow/visibleFlow";
import { usePage } from "../shell/pageContext";
import { type RequestState, useRequest } from "../shell/useRequest";
import { findModelEntry, buildFlowRequest, buildInput } from "./inputRequest";
import { explainMissing, listOutputNames } from "./inputFields";
import type { QueryContext } from "./queryLanguage";
import { useModelLoad } from "./useModelLoad";

/** Requests of the workbench and the values derived from them. */
export interface WorkbenchData {
  readonly input: Input;
  readonly entry: ModelEntry | undefined;
  readonly explainRequest: RequestState<Explanations>;
  readonly flowRequest: RequestState<Flow>;
  readonly visible: VisibleFlow | null;
  readonly queryContext: QueryContext;
  readonly noFlow: string | null; // null, or why this model has no attention
  readonly missing: string | null; // input that is missing before a request
}

/** Request explanations and flow for the page state. */
export function useWorkbenchData(): WorkbenchData {
  const { source, session, state } = usePage();
  const input = useMemo(() => buildInput(state, session), [state, session]);
  const entry = findModelEntry(input, session);
  const explainRequestBody = { input, methods: [...state.methods] };
  const isKnown = useModelLoad(entry);
  const missingReason = explainMissing(input, entry);
  const canAsk = isKnown && missingReason === null;
  const explainState = useRequest(
    canAsk ? JSON.stringify([session.started, explainRequestBody]) : null,
    (options) => source.explain(explainRequestBody, options),
  );
  const noFlow = entry?.attention ?? null;
  const request = buildFlowRequest(state, session);
  const flowState = useRequest(
    canAsk && noFlow === null ? JSON.stringify([session.started, request]) : null,
    (options) => source.flow(request, options),
  );
  const flow = flowState.value;
  const visible = useMemo(
    // The classic definition has its own threshold, so all its edges are visible.
    () => (flow ? selectVisible(flow, flow.influence ? 1 : chooseCoverage(state.coverage, flow)) : null),
    [flow, state.coverage],
  );
  const explanations = explainState.fault ? null : explainState.value;
  const queryContext = useMemo(
    () => ({
      tokens: explanations?.tokens ?? flow?.tokens ?? [],
      words: explanations?.words ?? [],
      labels: explanations ? listOutputNames(explanations) : [],
      layers: flow?.layers ?? entry?.layers ?? 0,
      heads: flow?.heads ?? entry?.heads ?? 0,
    }),
    [explanations, flow, entry?.layers, entry?.heads],
  );
  return {
    input,
    entry,
    explainRequest: explainState,
    flowRequest: flowState,
    visible,
    queryContext,
    noFlow,
    missing: isKnown ? missingReason : null,
  };
}
