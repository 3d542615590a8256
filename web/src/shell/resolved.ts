/** What the server fills in where the state says nothing: its first model, its pair, the example to begin with. */

import type { Session } from "../api/types";
import { modelsOf } from "../compare/models";
import { inputOf } from "../explain/asked";
import type { ViewState } from "../state/state";

export function resolved(state: ViewState, session: Session): Partial<ViewState> {
  const { model, text, pair = null } = inputOf(state, session);
  if (state.page === "explain") return { model, text, pair };
  if (state.page !== "compare") return {};
  const { a, b } = modelsOf(state, session);
  return { model: a, other: b, text, pair };
}
