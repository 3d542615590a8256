/** Pins of words: a click traces through a word, shift-click filters edges by it, a second click undoes it. */

import type { Flow } from "../api/types";
import type { ViewState } from "../state/state";
import { type TextFeature, findTracedToken } from "./textFeatures";

/** State change that removes all pins of words and heads; filters in words stay. */
export const NO_PINS = {
  token: null,
  tokens: [],
  direction: "back",
  head: null,
  heads: [],
} as const satisfies Partial<ViewState>;

/** Build the state change of a click on a word. */
export function togglePin(
  state: ViewState,
  feature: Pick<TextFeature, "tokens">,
  add: boolean,
  flow: Flow | null,
): Partial<ViewState> {
  if (add) {
    const isIn = feature.tokens.every((token) => state.tokens.includes(token));
    const rest = state.tokens.filter((token) => !feature.tokens.includes(token));
    return { tokens: isIn ? rest : [...rest, ...feature.tokens] };
  }
  if (state.token !== null && feature.tokens.includes(state.token)) return { token: null, direction: "back" };
  return {
    token: findTracedToken(feature, flow),
    direction: state.token !== null ? state.direction : "through",
  };
}
