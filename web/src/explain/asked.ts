/** From the state to what is asked for. */

import type { FlowAsked, Input, ModelEntry, Query, Session } from "../api/types";
import type { ViewState } from "../state/state";

/** Where a link names no model, the server's first; where it has no text, the first of the texts to begin with. */
export function inputOf(state: ViewState, session: Session): Input {
  const sample = state.text === "" ? session.samples[0] : undefined;
  return {
    model: state.model || (session.models[0]?.id ?? ""),
    text: sample?.text ?? state.text,
    pair: sample ? sample.pair : state.pair,
    target: state.target,
    of: state.of,
    truncate: true,
  };
}

export function entryOf(input: Input, session: Session): ModelEntry | undefined {
  return session.models.find(({ id }) => id === input.model);
}

export function queryOf(state: ViewState): Query {
  return {
    layers: state.layers === null ? null : [...state.layers],
    heads: state.heads.map(([layer, head]) => [layer, head]),
    tokens: [...state.tokens],
    segments: [...state.segments],
    least: state.least,
    specials: state.specials === "show",
  };
}

/** Forward and through need a word to begin with, and the classic definition knows neither. */
export function flowAsked(state: ViewState, session: Session): FlowAsked {
  return {
    input: inputOf(state, session),
    weight: state.classic ? "attention" : state.weight,
    direction: state.classic || state.token === null ? "back" : state.direction,
    token: state.classic ? null : state.token,
    residual: null,
    query: queryOf(state),
    classic: state.classic === null ? null : { ...state.classic },
    most: Math.min(5000, session.limits.edges),
  };
}

/** What falls when another text or model is asked about: words and heads of the one mean nothing in the other. */
export const FORGET: Partial<ViewState> = {
  target: null,
  token: null,
  direction: "back",
  layers: null,
  heads: [],
  tokens: [],
  segments: [],
  head: null,
};
