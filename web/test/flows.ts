/** Flows for tests: fixtures of the built-in model, synthetic flows of any size, and hostile tokens. */

import { readFileSync } from "node:fs";
import type { Flow, Token } from "../src/api/types";

/** Read a fixture. */
export function readFixture<T = Flow>(name: string): T {
  return JSON.parse(readFileSync(new URL(`./fixtures/${name}.json`, import.meta.url), "utf8")) as T;
}

/** Sizes and edges of a synthetic flow. */
export interface FlowSpec {
  readonly tokens: readonly string[];
  readonly layers?: number;
  readonly heads?: number;
  readonly edges: readonly (readonly [
    layer: number,
    head: number,
    source: number,
    to: number,
    flow: number,
  ])[];
  readonly total?: number;
  readonly count?: number;
}

/** Make a flow with these edges, the strongest first, as the server sends them. */
export function makeFlow({ tokens, layers = 2, heads = 2, edges, total, count }: FlowSpec): Flow {
  const sorted = [...edges].sort(
    (x, y) => y[4] - x[4] || x[0] - y[0] || x[1] - y[1] || x[2] - y[2] || x[3] - y[3],
  );
  const sum = sorted.reduce((carried, edge) => carried + edge[4], 0);
  const n = tokens.length;
  const level = (value: number): number[] =>
    Array.from({ length: n }, (_, i) => (i === 0 ? value : (1 - value) / n));
  return {
    version: 1,
    kind: "flow",
    model: "made",
    target: { label: "positive", index: 1, against: null, of: "logit" },
    tokens: tokens.map((text, i): Token => ({
      text,
      start: null,
      end: null,
      segment: 0,
      special: i === 0,
      id: i,
    })),
    weight: "attention",
    class_free: true,
    direction: "back",
    token: null,
    layers,
    heads,
    per_head: true,
    edges: {
      layer: sorted.map((edge) => edge[0]),
      head: sorted.map((edge) => edge[1]),
      source: sorted.map((edge) => edge[2]),
      to: sorted.map((edge) => edge[3]),
      flow: sorted.map((edge) => edge[4]),
      weight: sorted.map((edge) => Math.min(1, edge[4] * 2)),
    },
    count: count ?? sorted.length,
    total: total ?? sum,
    sent: sum,
    whole: total ?? sum,
    nodes: Array.from({ length: layers + 1 }, (_, l) =>
      l === layers ? tokens.map((__, i) => (i ? 0 : 1)) : level(0.3),
    ),
    residual: Array.from({ length: layers }, () => level(0.4)),
    residual_share: Array.from({ length: layers }, () => 0.5),
    special_share: Array.from({ length: layers }, () => 0.2),
    shares: level(0.3),
    influence: null,
    note: "",
  };
}

/** Make a large flow with the same numbers every time. */
export function makeLargeFlow(tokens: number, layers: number, heads: number, edges: number): Flow {
  let state = 1;
  const below = (most: number): number => {
    state = (state * 48271) % 2147483647;
    return state % most;
  };
  return makeFlow({
    tokens: Array.from({ length: tokens }, (_, i) => (i === 0 ? "[CLS]" : `word${i}`)),
    layers,
    heads,
    edges: Array.from({ length: edges }, (_, i) => [
      below(layers),
      below(heads),
      below(tokens),
      below(tokens),
      1 / (i + 10),
    ]),
  });
}

/** Tokens with markup, control characters, right-to-left text, emoji, and extreme lengths. */
export const HOSTILE = [
  "[CLS]",
  "</script><img src=x onerror=alert(1)>",
  "שלום עולם",
  "\u202egnp.exe",
  "👩‍👩‍👧‍👦🏳️‍🌈",
  "\u200b",
  "",
  "\u0000\ud800",
  "a".repeat(500),
  "\n\t",
  `"'&<!--]]>`,
  "漢字".repeat(40),
];
