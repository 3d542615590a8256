/** Defaults of the state that depend on the session: first model, model pair, sample text, method. */

import type { Session } from "../api/types";
import { resolveModelPair } from "../compare/modelPair";
import { buildInput } from "../explain/inputRequest";
import type { PageName, ViewState } from "../state/state";

/** Return the state with its methods, or with the model's default method where none is chosen. */
export function resolveMethods(state: ViewState, session: Session): ViewState {
  if (state.methods.length > 0 || PAGES_WITHOUT_MODEL.includes(state.page)) return state;
  return { ...state, methods: [getDefaultMethod(buildInput(state, session).model, session)] };
}

/** Return the default method of a model, known once it is loaded. */
export function getDefaultMethod(model: string, session: Session): string {
  return session.models.find(({ id }) => id === model)?.method ?? DEFAULT_METHOD;
}

const DEFAULT_METHOD = "attcat"; // default of most models
const PAGES_WITHOUT_MODEL: readonly PageName[] = ["help", "results", "runs"]; // pages that use no model

/** Return the defaults that the page shows for its state. */
export function resolveDefaults(state: ViewState, session: Session): Partial<ViewState> {
  const { model, text, pair = null, picture = null } = buildInput(state, session);
  const { methods } = resolveMethods(state, session);
  if (state.page === "explain") return { model, text, pair, picture, methods };
  if (state.page !== "compare") return {};
  const { a, b } = resolveModelPair(state, session);
  return { model: a, other: b, text, pair, methods };
}
