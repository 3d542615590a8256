/** From the state to the comparison that is asked for. */

import type { Session } from "../api/types";
import type { components } from "../api/schema.gen";
import { flowAsked } from "../explain/asked";
import type { ViewState } from "../state/state";
import { modelsOf } from "./models";

export type CompareAsked = components["schemas"]["CompareAsked"];

export function compareAsked(state: ViewState, session: Session): CompareAsked {
  const { input, weight, direction, token, query } = flowAsked(state, session);
  const { text, pair = null, target = null } = input;
  return {
    ...modelsOf(state, session),
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

/** What of the state changes when A and B change places. */
export function swapped(state: ViewState, session: Session): Partial<ViewState> {
  const { a, b } = modelsOf(state, session);
  return { model: b, other: a };
}
