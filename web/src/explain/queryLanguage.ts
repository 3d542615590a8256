/** Parser of edge-filter queries (word, layer, head, segment, weight) into state changes, and filter chips. */

import type { SegmentPair, Token, Word } from "../api/types";
import { showInvisible } from "../render/text";
import { SEGMENTS, listNames } from "../state/choices";
import * as field from "../state/linkFields";
import type { HeadId, ViewState } from "../state/state";

/** Tokens, words, labels and sizes that a query refers to. */
export interface QueryContext {
  readonly tokens: readonly Token[];
  readonly words: readonly Word[];
  readonly labels: readonly string[];
  readonly layers: number;
  readonly heads: number;
}

/** State change of a query, or the reason why it was not understood. */
export type QueryResult = { readonly change: Partial<ViewState> } | { readonly problem: string };

/** Example query, shown as a placeholder. */
export const EXAMPLES = "movie  pos:12  seg:B  head:5.7  edge>0.2  class:neg";

/** Apply all terms of a query; one that is not understood rejects the whole query. */
export function applyQuery(text: string, state: ViewState, queryContext: QueryContext): QueryResult {
  let next: ViewState = state;
  for (const term of text.match(/"[^"]*"|\S+/g) ?? []) {
    const answer = applyTerm(term, next, queryContext);
    if ("problem" in answer) return answer;
    next = { ...next, ...answer.change };
  }
  const { tokens, heads, layers, segments, least, target } = next;
  return { change: { tokens, heads, layers, segments, least, target } };
}

function applyTerm(term: string, state: ViewState, queryContext: QueryContext): QueryResult {
  const edge = /^edge\s*(?:>=?|≥)\s*(.*)$/i.exec(term);
  if (edge) return applyLeast(edge[1] ?? "");
  const [, key = "", value = ""] = /^(\w+):(.+)$/.exec(term) ?? [];
  switch (key.toLowerCase()) {
    case "pos":
      return applyPosition(value, state, queryContext);
    case "seg":
      return applySegment(value, state, queryContext);
    case "layer":
      return applyLayers(value, queryContext);
    case "head":
      return applyHead(value, state, queryContext);
    case "class":
      return applyLabel(value, queryContext);
    default:
      return applyWord(term.replace(/^"(.*)"$/, "$1"), state, queryContext);
  }
}

function applyLeast(value: string): QueryResult {
  const result = field.share.read(value);
  return result === undefined
    ? { problem: `edge> takes a number from 0 to 1, not “${value}”.` }
    : { change: { least: result } };
}

function applyPosition(value: string, state: ViewState, { tokens }: QueryContext): QueryResult {
  const result = field.integer.read(value);
  if (result === undefined || result >= tokens.length) {
    return { problem: `pos: takes a token's number, 0 to ${tokens.length - 1}, not “${value}”.` };
  }
  return { change: { tokens: mergeUnique(state.tokens, [result]) } };
}

function applySegment(value: string, state: ViewState, { tokens }: QueryContext): QueryResult {
  const upper = value.toUpperCase();
  const pairs = listNames(SEGMENTS).filter(
    (pair) => pair === upper || (/^[AB]$/.test(upper) && pair.endsWith(`>${upper}`)),
  );
  if (pairs.length === 0) return { problem: `seg: takes A, B or a pair such as A>B, not “${value}”.` };
  if (!tokens.some((token) => token.segment === 1))
    return { problem: "This input has one text only, so it has no segments." };
  return { change: { segments: mergeUnique<SegmentPair>(state.segments, pairs) } };
}

function applyLayers(value: string, queryContext: QueryContext): QueryResult {
  const single = field.integer.read(value);
  const result = single === undefined ? field.range.read(value) : ([single, single] as const);
  if (!result || result[1] >= queryContext.layers) {
    return {
      problem: `layer: takes a layer or a range within 0-${queryContext.layers - 1}, not “${value}”.`,
    };
  }
  return { change: { layers: result } };
}

function applyHead(value: string, state: ViewState, queryContext: QueryContext): QueryResult {
  const result = field.head.read(value);
  if (!result || result[0] >= queryContext.layers || result[1] >= queryContext.heads) {
    const most = `${queryContext.layers - 1}.${queryContext.heads - 1}`;
    return { problem: `head: takes LAYER.HEAD, both from 0, at most ${most}, not “${value}”.` };
  }
  return { change: { heads: toggleHead(state.heads, result, true) } };
}

function applyLabel(value: string, { labels }: QueryContext): QueryResult {
  const lower = value.toLowerCase();
  const result =
    labels.find((each) => each.toLowerCase() === lower) ??
    labels.find((each) => each.toLowerCase().startsWith(lower));
  return result === undefined
    ? { problem: `There is no class “${value}”; there are ${labels.join(", ")}.` }
    : { change: { target: result } };
}

function applyWord(value: string, state: ViewState, { words }: QueryContext): QueryResult {
  const lower = value.toLowerCase();
  const same = words.filter((each) => each.text.toLowerCase() === lower);
  const result = same.length > 0 ? same : words.filter((each) => each.text.toLowerCase().startsWith(lower));
  if (result.length === 0) return { problem: `No word here is or begins with “${value}”.` };
  return {
    change: {
      tokens: mergeUnique(
        state.tokens,
        result.flatMap((each) => each.tokens),
      ),
    },
  };
}

function mergeUnique<T>(old: readonly T[], more: readonly T[]): readonly T[] {
  return [...new Set([...old, ...more])];
}

/** Add a head to a list or remove it; without `wish`, toggle it. */
export function toggleHead(
  heads: readonly HeadId[],
  [layer, number]: HeadId,
  wish?: boolean,
): readonly HeadId[] {
  const rest = heads.filter((each) => each[0] !== layer || each[1] !== number);
  const into = wish ?? rest.length === heads.length;
  return into ? [...rest, [layer, number]] : rest;
}

/** Active filter, with the state change that removes it. */
export interface Chip {
  readonly label: string;
  readonly removal: Partial<ViewState>; // state change that removes the filter
}

/** List the active filters, the trace and the class. */
export function listChips(
  state: ViewState,
  queryContext: Pick<QueryContext, "tokens" | "words">,
): readonly Chip[] {
  const result: Chip[] = [];
  if (state.token !== null) {
    const name = quoteWord(state.token, queryContext);
    const how =
      state.direction === "forward"
        ? "forward from"
        : state.direction === "through"
          ? "through"
          : "back from";
    result.push({ label: `${how} ${name}`, removal: { token: null, direction: "back" } });
  }
  for (const tokens of groupByWord(state.tokens, queryContext.words)) {
    const left = state.tokens.filter((token) => !tokens.includes(token));
    result.push({ label: `touches ${quoteWord(tokens[0] ?? 0, queryContext)}`, removal: { tokens: left } });
  }
  if (state.layers)
    result.push({ label: `layers ${state.layers[0]}–${state.layers[1]}`, removal: { layers: null } });
  for (const each of state.heads) {
    result.push({
      label: `head ${each[0]}.${each[1]}`,
      removal: { heads: toggleHead(state.heads, each, false) },
    });
  }
  for (const pair of state.segments) {
    result.push({
      label: SEGMENTS[pair],
      removal: { segments: state.segments.filter((each) => each !== pair) },
    });
  }
  if (state.least > 0) result.push({ label: `weight ≥ ${state.least}`, removal: { least: 0 } });
  if (state.target !== null) result.push({ label: `class ${state.target}`, removal: { target: null } });
  return result;
}

/** List the active filters alone; trace and class are no filters. */
export function listFilters(
  state: ViewState,
  queryContext: Pick<QueryContext, "tokens" | "words">,
): readonly string[] {
  return listChips({ ...state, token: null, target: null }, queryContext).map(({ label }) => label);
}

/** Group tokens by word: one chip for each word. */
function groupByWord(tokens: readonly number[], words: readonly Word[]): readonly (readonly number[])[] {
  const groups = new Map<string, number[]>();
  for (const token of tokens) {
    const index = words.findIndex((each) => each.tokens.includes(token));
    const key = index < 0 ? `token ${token}` : `word ${index}`;
    groups.set(key, [...(groups.get(key) ?? []), token]);
  }
  return [...groups.values()];
}

/** Quote the word of a token. */
export function quoteWord(token: number, { tokens, words }: Pick<QueryContext, "tokens" | "words">): string {
  const text = words.find((each) => each.tokens.includes(token))?.text ?? tokens[token]?.text;
  return text === undefined ? `token ${token}` : `“${showInvisible(text)}”`;
}
