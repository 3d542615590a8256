/** The little language of the query box, and the chips that show what is in force. */

import type { SegmentPair, Token, Word } from "../api/types";
import { visible } from "../render/text";
import { SEGMENTS, namesOf } from "../state/choices";
import * as field from "../state/fields";
import type { HeadId, ViewState } from "../state/state";

/** What words can be looked up in. */
export interface Ground {
  readonly tokens: readonly Token[];
  readonly words: readonly Word[];
  readonly labels: readonly string[];
  readonly layers: number;
  readonly heads: number;
}

export type Answer = { readonly change: Partial<ViewState> } | { readonly problem: string };

export const EXAMPLES = "movie  pos:12  seg:B  head:5.7  edge>0.2  class:neg";

/** Adds the terms of a query to the state; all must be understood, or nothing changes. */
export function ask(written: string, state: ViewState, ground: Ground): Answer {
  let next: ViewState = state;
  for (const term of written.match(/"[^"]*"|\S+/g) ?? []) {
    const answer = one(term, next, ground);
    if ("problem" in answer) return answer;
    next = { ...next, ...answer.change };
  }
  const { tokens, heads, layers, segments, least, target } = next;
  return { change: { tokens, heads, layers, segments, least, target } };
}

function one(term: string, state: ViewState, ground: Ground): Answer {
  const edge = /^edge\s*(?:>=?|≥)\s*(.*)$/i.exec(term);
  if (edge) return least(edge[1] ?? "");
  const [, key = "", value = ""] = /^(\w+):(.+)$/.exec(term) ?? [];
  switch (key.toLowerCase()) {
    case "pos":
      return position(value, state, ground);
    case "seg":
      return segment(value, state, ground);
    case "layer":
      return layers(value, ground);
    case "head":
      return head(value, state, ground);
    case "class":
      return label(value, ground);
    default:
      return word(term.replace(/^"(.*)"$/, "$1"), state, ground);
  }
}

function least(value: string): Answer {
  const found = field.share.read(value);
  return found === undefined
    ? { problem: `edge> takes a number from 0 to 1, not “${value}”.` }
    : { change: { least: found } };
}

function position(value: string, state: ViewState, { tokens }: Ground): Answer {
  const found = field.integer.read(value);
  if (found === undefined || found >= tokens.length) {
    return { problem: `pos: takes a token's number, 0 to ${tokens.length - 1}, not “${value}”.` };
  }
  return { change: { tokens: union(state.tokens, [found]) } };
}

function segment(value: string, state: ViewState, { tokens }: Ground): Answer {
  const upper = value.toUpperCase();
  const pairs = namesOf(SEGMENTS).filter(
    (pair) => pair === upper || (/^[AB]$/.test(upper) && pair.endsWith(`>${upper}`)),
  );
  if (pairs.length === 0) return { problem: `seg: takes A, B or a pair such as A>B, not “${value}”.` };
  if (!tokens.some((token) => token.segment === 1))
    return { problem: "This input has one text only, so it has no segments." };
  return { change: { segments: union<SegmentPair>(state.segments, pairs) } };
}

function layers(value: string, ground: Ground): Answer {
  const single = field.integer.read(value);
  const found = single === undefined ? field.range.read(value) : ([single, single] as const);
  if (!found || found[1] >= ground.layers) {
    return { problem: `layer: takes a layer or a range within 0-${ground.layers - 1}, not “${value}”.` };
  }
  return { change: { layers: found } };
}

function head(value: string, state: ViewState, ground: Ground): Answer {
  const found = field.head.read(value);
  if (!found || found[0] >= ground.layers || found[1] >= ground.heads) {
    const most = `${ground.layers - 1}.${ground.heads - 1}`;
    return { problem: `head: takes LAYER.HEAD, both from 0, at most ${most}, not “${value}”.` };
  }
  return { change: { heads: toggled(state.heads, found, true) } };
}

function label(value: string, { labels }: Ground): Answer {
  const lower = value.toLowerCase();
  const found =
    labels.find((each) => each.toLowerCase() === lower) ??
    labels.find((each) => each.toLowerCase().startsWith(lower));
  return found === undefined
    ? { problem: `There is no class “${value}”; there are ${labels.join(", ")}.` }
    : { change: { target: found } };
}

function word(value: string, state: ViewState, { words }: Ground): Answer {
  const lower = value.toLowerCase();
  const same = words.filter((each) => each.text.toLowerCase() === lower);
  const found = same.length > 0 ? same : words.filter((each) => each.text.toLowerCase().startsWith(lower));
  if (found.length === 0) return { problem: `No word here is or begins with “${value}”.` };
  return {
    change: {
      tokens: union(
        state.tokens,
        found.flatMap((each) => each.tokens),
      ),
    },
  };
}

function union<T>(old: readonly T[], more: readonly T[]): readonly T[] {
  return [...new Set([...old, ...more])];
}

/** A list of heads with this one in it or not; without a wish, the other way round than it is. */
export function toggled(
  heads: readonly HeadId[],
  [layer, number]: HeadId,
  wish?: boolean,
): readonly HeadId[] {
  const rest = heads.filter((each) => each[0] !== layer || each[1] !== number);
  const into = wish ?? rest.length === heads.length;
  return into ? [...rest, [layer, number]] : rest;
}

export interface Chip {
  readonly label: string;
  readonly without: Partial<ViewState>; // the change that takes it away
}

export function chips(state: ViewState, ground: Pick<Ground, "tokens" | "words">): readonly Chip[] {
  const found: Chip[] = [];
  if (state.token !== null) {
    const name = wordAt(state.token, ground);
    const how =
      state.direction === "forward"
        ? "forward from"
        : state.direction === "through"
          ? "through"
          : "back from";
    found.push({ label: `${how} ${name}`, without: { token: null, direction: "back" } });
  }
  for (const tokens of grouped(state.tokens, ground.words)) {
    const left = state.tokens.filter((token) => !tokens.includes(token));
    found.push({ label: `touches ${wordAt(tokens[0] ?? 0, ground)}`, without: { tokens: left } });
  }
  if (state.layers)
    found.push({ label: `layers ${state.layers[0]}–${state.layers[1]}`, without: { layers: null } });
  for (const each of state.heads) {
    found.push({
      label: `head ${each[0]}.${each[1]}`,
      without: { heads: toggled(state.heads, each, false) },
    });
  }
  for (const pair of state.segments) {
    found.push({
      label: SEGMENTS[pair],
      without: { segments: state.segments.filter((each) => each !== pair) },
    });
  }
  if (state.least > 0) found.push({ label: `weight ≥ ${state.least}`, without: { least: 0 } });
  if (state.target !== null) found.push({ label: `class ${state.target}`, without: { target: null } });
  return found;
}

/** What of the flow is let through, in words: without the trace and the class, which are no filters. */
export function filtersOf(state: ViewState, ground: Pick<Ground, "tokens" | "words">): readonly string[] {
  return chips({ ...state, token: null, target: null }, ground).map(({ label }) => label);
}

/** Pinned tokens of one word make one chip. */
function grouped(tokens: readonly number[], words: readonly Word[]): readonly (readonly number[])[] {
  const groups = new Map<string, number[]>();
  for (const token of tokens) {
    const index = words.findIndex((each) => each.tokens.includes(token));
    const key = index < 0 ? `token ${token}` : `word ${index}`;
    groups.set(key, [...(groups.get(key) ?? []), token]);
  }
  return [...groups.values()];
}

export function wordAt(token: number, { tokens, words }: Pick<Ground, "tokens" | "words">): string {
  const text = words.find((each) => each.tokens.includes(token))?.text ?? tokens[token]?.text;
  return text === undefined ? `token ${token}` : `“${visible(text)}”`;
}
