/** What choosing a word does: the trace goes through it; with shift, edges must touch it. Once more, and it is undone. */

import type { Flow } from "../api/types";
import type { ViewState } from "../state/state";
import { type Unit, tracedBy } from "./units";

/** The change that unpins everything: words and heads, chosen or asked for. Filters in words stay. */
export const UNPINNED = {
  token: null,
  tokens: [],
  direction: "back",
  head: null,
  heads: [],
} as const satisfies Partial<ViewState>;

export function pinned(
  state: ViewState,
  unit: Pick<Unit, "tokens">,
  add: boolean,
  flow: Flow | null,
): Partial<ViewState> {
  if (add) {
    const isIn = unit.tokens.every((token) => state.tokens.includes(token));
    const rest = state.tokens.filter((token) => !unit.tokens.includes(token));
    return { tokens: isIn ? rest : [...rest, ...unit.tokens] };
  }
  if (state.token !== null && unit.tokens.includes(state.token)) return { token: null, direction: "back" };
  return { token: tracedBy(unit, flow), direction: state.token !== null ? state.direction : "through" };
}
