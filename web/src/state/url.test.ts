/** Tests of the URL codec: round trips of any state, only differences written, unreadable parts survive. */

import fc from "fast-check";
import { expect, test } from "vitest";

import {
  DIRECTIONS,
  GRANULARITIES,
  PAGES,
  SEGMENTS,
  SPECIALS,
  STATISTICS,
  VIEWS,
  WEIGHTS,
  listNames,
} from "./choices";
import { DEFAULT, type ViewState } from "./state";
import { formatUrl, parseUrl } from "./url";

const number = fc.integer({ min: 0, max: 999_999 });
const text = fc.string({ unit: "binary", maxLength: 40 });
const share = fc.double({ min: 0, max: 1, noNaN: true }).map((value) => value + 0); // -0 is 0
const head = fc.tuple(number, number);
const name = text.filter((encoded) => encoded !== "" && !encoded.includes(","));

const states: fc.Arbitrary<ViewState> = fc.record({
  page: fc.constantFrom(...listNames(PAGES)),
  model: text,
  other: text,
  text,
  pair: fc.option(text),
  picture: fc.option(text),
  at: fc.option(text),
  entity: number,
  answer: fc.option(text),
  rather: fc.option(text),
  labels: text,
  template: fc.option(text),
  methods: fc.array(name, { maxLength: 4 }),
  target: fc.option(text),
  of: fc.constantFrom("logit", "probability"),
  beside: fc.array(
    text.filter((encoded) => encoded !== "" && !/\n/.test(encoded)),
    { maxLength: 3 },
  ),
  generate: fc.option(number),
  granularity: fc.constantFrom(...listNames(GRANULARITIES)),
  weight: fc.constantFrom(...listNames(WEIGHTS)),
  direction: fc.constantFrom(...listNames(DIRECTIONS)),
  token: fc.option(number),
  coverage: fc.option(fc.integer({ min: 1, max: 1000 }).map((tenths) => tenths / 1000)), // a link keeps a tenth of a percent
  layers: fc.option(fc.tuple(number, number).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const)),
  heads: fc.array(head, { maxLength: 5 }),
  tokens: fc.array(number, { maxLength: 5 }),
  segments: fc.uniqueArray(fc.constantFrom(...listNames(SEGMENTS))),
  least: share,
  specials: fc.constantFrom(...listNames(SPECIALS)),
  classic: fc.option(
    fc.record({ threshold: share.filter((value) => value > 0), decay: share, carry: fc.boolean() }),
  ),
  view: fc.constantFrom(...listNames(VIEWS)),
  statistic: fc.constantFrom(...listNames(STATISTICS)),
  thumbnails: fc.boolean(),
  head: fc.option(head),
  words: fc.boolean(),
  strength: share,
  smooth: fc.boolean(),
  difference: fc.boolean(),
  data: fc.option(text),
  result: fc.option(text),
  run: fc.option(text),
  found: text,
  card: fc.option(text),
  tab: text,
  rows: text,
});

test("round trip: a link restores every state", () => {
  fc.assert(
    fc.property(states, (state) => {
      expect(parseUrl(formatUrl(state))).toEqual({ state, problems: [] });
    }),
    { numRuns: 500, seed: 6 },
  );
});

test("round trip through the browser's URL: link unchanged", () => {
  fc.assert(
    fc.property(states, (state) => {
      const address = new URL(`http://127.0.0.1/${formatUrl(state)}`);
      expect(parseUrl(address.hash).state).toEqual(state);
    }),
    { numRuns: 200, seed: 7 },
  );
});

test("formatUrl: writes only differences from the default", () => {
  expect(formatUrl(DEFAULT)).toBe("#/explain");
  const state: ViewState = {
    ...DEFAULT,
    text: "not bad, at all",
    methods: ["attcat", "rollout"],
    layers: [3, 11],
    heads: [[9, 4]],
    token: 6,
  };
  expect(formatUrl(state)).toBe("#/explain?text=not+bad,+at+all&m=attcat,rollout&tok=6&L=3-11&H=9.4");
});

test("formatUrl, link with a model: names its methods", () => {
  expect(formatUrl({ ...DEFAULT, model: "reviews", methods: ["attcat"] })).toBe(
    "#/explain?model=reviews&m=attcat",
  );
  expect(formatUrl({ ...DEFAULT, model: "reviews" })).toBe("#/explain?model=reviews");
  expect(formatUrl({ ...DEFAULT, page: "data", model: "reviews" })).toBe("#/data?model=reviews");
});

test("parseUrl, empty address: the default", () => {
  for (const hash of ["", "#", "#/", "#/explain", "#/explain?"])
    expect(parseUrl(hash)).toEqual({ state: DEFAULT, problems: [] });
});

test.each([
  ["#/nowhere?p=30", "There is no page “nowhere”."],
  ["#/explain?p=300", "The link's p=300 cannot be read; the default holds."],
  ["#/explain?p=", "The link's p= cannot be read; the default holds."],
  ["#/explain?L=7-3", "The link's L=7-3 cannot be read; the default holds."],
  ["#/explain?H=9.4,x", "The link's H=9.4,x cannot be read; the default holds."],
  ["#/explain?m=", "The link's m= cannot be read; the default holds."],
  ["#/explain?m=a,b,c,d,e", "The link's m=a,b,c,d,e cannot be read; the default holds."],
  ["#/explain?view=__proto__", "The link's view=__proto__ cannot be read; the default holds."],
  ["#/explain?classic=0,0,1", "The link's classic=0,0,1 cannot be read; the default holds."],
  ["#/explain?text=", "The link's text is empty; an example stands in its place."],
  ["#/explain?color=red", "The link says “color”, which this page does not know."],
])("parseUrl, %s: falls back and reports it", (hash, problem) => {
  const parsed = parseUrl(hash);
  expect(parsed.problems).toEqual([problem]);
  expect({ ...parsed.state, coverage: null }).toEqual(DEFAULT);
});

test("parseUrl: keeps readable parts beside unreadable ones", () => {
  const { state, problems } = parseUrl("#/explain?p=30&L=x&tok=4");
  expect(state).toEqual({ ...DEFAULT, coverage: 0.3, token: 4 });
  expect(problems).toHaveLength(1);
});

test("parseUrl: never throws", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (hash) => {
      parseUrl(`#${hash}`);
      parseUrl(`#/explain?${hash}`);
    }),
    { seed: 8 },
  );
});

test("half a surrogate pair: becomes U+FFFD", () => {
  expect(parseUrl(formatUrl({ ...DEFAULT, text: "a\ud800b" })).state.text).toBe("a\ufffdb");
});
