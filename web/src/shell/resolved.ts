/** What the server fills in where the state says nothing: its first model, its pair, the example to begin with. */

import type { Session } from "../api/types";
import { modelsOf } from "../compare/models";
import { inputOf } from "../explain/asked";
import type { PageName, ViewState } from "../state/state";

/** The state with the methods that are shown: where none was chosen, the usual one of the model. */
export function withMethods(state: ViewState, session: Session): ViewState {
  if (state.methods.length > 0 || UNASKED.includes(state.page)) return state;
  return { ...state, methods: [usualMethod(inputOf(state, session).model, session)] };
}

/** The method that explains a model where none is chosen; which it is shows when the model is loaded. */
export function usualMethod(model: string, session: Session): string {
  return session.models.find(({ id }) => id === model)?.method ?? USUAL;
}

const USUAL = "attcat"; // of most models
const UNASKED: readonly PageName[] = ["help", "results", "runs"]; // where no model is asked

export function resolved(state: ViewState, session: Session): Partial<ViewState> {
  const { model, text, pair = null, picture = null } = inputOf(state, session);
  const { methods } = withMethods(state, session);
  if (state.page === "explain") return { model, text, pair, picture, methods };
  if (state.page !== "compare") return {};
  const { a, b } = modelsOf(state, session);
  return { model: a, other: b, text, pair, methods };
}
