/** From the state to what is asked for. */

import type { FlowAsked, Input, ModelEntry, Query, Session } from "../api/types";
import type { ViewState } from "../state/state";
import { fieldsOf, labelsOf, masksOf, plainly, samplesOf } from "./fields";

/**
 * Where a link names no model, the server's first; where it has no text, the first of the texts to begin with. What the
 * model's task has no use for is left out.
 */
export function inputOf(state: ViewState, session: Session): Input {
  const model = state.model || (session.models[0]?.id ?? "");
  const found = session.models.find(({ id }) => id === model);
  const entry = state.page === "compare" ? plainly(found) : found;
  const fields = fieldsOf(entry);
  const labels = fields.labels === null ? [] : labelsOf(state.labels);
  const sample = state.text === "" ? samplesOf(entry, session)[0] : undefined;
  const picture = fields.picture ? (state.picture ?? (entry?.draws ? FIRST : null)) : null;
  const text = fields.text === null ? "" : (sample?.text ?? state.text);
  // Of several masks one is asked about: the first, where nobody has said which.
  const at = state.at ?? (masksOf(text, entry) > 1 ? "0" : null);
  return {
    model,
    text,
    pair: fields.pair === null ? null : sample ? sample.pair : state.pair,
    target: state.target,
    of: state.of,
    truncate: true,
    // Only what is asked goes into the question: the same question then has the same name everywhere.
    ...(entry?.task === "tags" && state.at === null && state.entity > 0 ? { entity: state.entity } : {}),
    ...(picture === null ? {} : { picture }),
    ...(fields.at === null || at === null ? {} : { at }),
    ...(fields.answer && state.answer !== null ? { answer: state.answer } : {}),
    ...(fields.answer && state.answer !== null && state.rather !== null ? { rather: state.rather } : {}),
    ...(labels.length > 0 ? { labels } : {}),
    ...(labels.length > 0 && state.template !== null ? { template: state.template } : {}),
  };
}

const FIRST = "shapes:0"; // a drawing to begin with

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
  beside: [],
  entity: 0,
  generate: null,
  token: null,
  direction: "back",
  layers: null,
  heads: [],
  tokens: [],
  segments: [],
  head: null,
};

/** Without a text the model opens with a sample. */
export const NO_TEXT: Partial<ViewState> = { text: "", pair: null };

/** What falls besides when another model is asked: what was said to the one may mean nothing to the other. */
export const FORGET_FIELDS: Partial<ViewState> = {
  picture: null,
  at: null,
  answer: null,
  rather: null,
  labels: "",
  template: null,
};
