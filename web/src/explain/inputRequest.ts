/** Input, edge filter and flow request built from the page state, and state resets for another input or model. */

import type { FlowRequest, Input, ModelEntry, Query, Session } from "../api/types";
import type { ViewState } from "../state/state";
import { findFields, parseLabels, countMasks, asTextModel, findSamples } from "./inputFields";

/**
 * Build the input. Defaults: the server's first model, and the model's first sample text. Fields that the task
 * has no use for are left out.
 */
export function buildInput(state: ViewState, session: Session): Input {
  const model = state.model || (session.models[0]?.id ?? "");
  const result = session.models.find(({ id }) => id === model);
  const entry = state.page === "compare" ? asTextModel(result) : result;
  const fields = findFields(entry);
  const labels = fields.labels === null ? [] : parseLabels(state.labels);
  const sample = state.text === "" ? findSamples(entry, session)[0] : undefined;
  const picture = fields.picture ? (state.picture ?? (entry?.draws ? FIRST_DRAWING : null)) : null;
  const text = fields.text === null ? "" : (sample?.text ?? state.text);
  // With several masks, the default is the first.
  const at = state.at ?? (countMasks(text, entry) > 1 ? "0" : null);
  return {
    model,
    text,
    pair: fields.pair === null ? null : sample ? sample.pair : state.pair,
    target: state.target,
    of: state.of,
    truncate: true,
    // Unset fields are left out, so that equal requests have equal keys.
    ...(entry?.task === "tags" && state.at === null && state.entity > 0 ? { entity: state.entity } : {}),
    ...(picture === null ? {} : { picture }),
    ...(fields.at === null || at === null ? {} : { at }),
    ...(fields.answer && state.answer !== null ? { answer: state.answer } : {}),
    ...(fields.answer && state.answer !== null && state.rather !== null ? { rather: state.rather } : {}),
    ...(labels.length > 0 ? { labels } : {}),
    ...(labels.length > 0 && state.template !== null ? { template: state.template } : {}),
  };
}

const FIRST_DRAWING = "shapes:0"; // default drawing

/** Find the session's entry of the input's model. */
export function findModelEntry(input: Input, session: Session): ModelEntry | undefined {
  return session.models.find(({ id }) => id === input.model);
}

/** Build the edge filter of the state. */
export function buildQuery(state: ViewState): Query {
  return {
    layers: state.layers === null ? null : [...state.layers],
    heads: state.heads.map(([layer, head]) => [layer, head]),
    tokens: [...state.tokens],
    segments: [...state.segments],
    least: state.least,
    specials: state.specials === "show",
  };
}

/** Build the flow request. Forward and through need a word; the classic definition has neither. */
export function buildFlowRequest(state: ViewState, session: Session): FlowRequest {
  return {
    input: buildInput(state, session),
    weight: state.classic ? "attention" : state.weight,
    direction: state.classic || state.token === null ? "back" : state.direction,
    token: state.classic ? null : state.token,
    residual: null,
    query: buildQuery(state),
    classic: state.classic === null ? null : { ...state.classic },
    most: Math.min(5000, session.limits.edges),
  };
}

/** Reset for another text or model: selected words and heads are meaningless there. */
export const RESET_SELECTION: Partial<ViewState> = {
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

/** Reset of the text: the model then opens with its sample. */
export const RESET_TEXT: Partial<ViewState> = { text: "", pair: null };

/** Reset of the task fields for another model: they may not exist there. */
export const RESET_FIELDS: Partial<ViewState> = {
  picture: null,
  at: null,
  answer: null,
  rather: null,
  labels: "",
  template: null,
};
