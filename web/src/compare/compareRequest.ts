/** Request to compare two models on one input, built from the page state, and the swap of both. */

import type { Session } from "../api/types";
import type { components } from "../api/schema.gen";
import { buildFlowRequest } from "../explain/inputRequest";
import type { ViewState } from "../state/state";
import { resolveModelPair } from "./modelPair";

export type CompareRequest = components["schemas"]["CompareRequest"];

/** Build the request from the state and the session's defaults. */
export function buildCompareRequest(state: ViewState, session: Session): CompareRequest {
  const { input, weight, direction, token, query } = buildFlowRequest(state, session);
  const { text, pair = null, target = null } = input;
  return {
    ...resolveModelPair(state, session),
    text,
    pair,
    target,
    weight,
    direction,
    token,
    query,
    method: state.methods[0] ?? null,
    truncate: true,
  };
}

/** Return the state change that exchanges A and B. */
export function swapModels(state: ViewState, session: Session): Partial<ViewState> {
  const { a, b } = resolveModelPair(state, session);
  return { model: b, other: a };
}
