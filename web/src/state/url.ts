/** URL codec of the page state: writes differences from the default after `#`, parses any link. */

import { DIRECTIONS, GRANULARITIES, PAGES, SEGMENTS, SPECIALS, STATISTICS, VIEWS, WEIGHTS } from "./choices";
import * as field from "./linkFields";
import type { Field } from "./linkFields";
import { DEFAULT, type ViewState } from "./state";

type Fields = {
  readonly [K in Exclude<keyof ViewState, "page">]: readonly [key: string, field: Field<ViewState[K]>];
};

const OF = { logit: "", probability: "" };

const classic: Field<NonNullable<ViewState["classic"]>> = {
  write: ({ threshold, decay, carry }) => [threshold, decay, field.flag.write(carry)].join(","),
  read: (text) => {
    const [threshold, decay, carry, ...rest] = text.split(",");
    const read = {
      threshold: field.share.read(threshold ?? ""),
      decay: field.share.read(decay ?? ""),
      carry: field.flag.read(carry ?? ""),
    };
    if (rest.length > 0 || !read.threshold || read.decay === undefined || read.carry === undefined)
      return undefined;
    return { threshold: read.threshold, decay: read.decay, carry: read.carry };
  },
};

const methods: Field<readonly string[]> = {
  write: field.list(field.name).write,
  read: (text) => (text === "" ? undefined : field.list(field.name, 4).read(text)),
};

/** Codecs, in the order in which they are written to a link. */
const FIELDS: Fields = {
  model: ["model", field.text],
  other: ["other", field.text],
  text: ["text", field.text],
  pair: ["pair", field.optional(field.text)],
  picture: ["picture", field.optional(field.text)],
  at: ["at", field.optional(field.text)],
  entity: ["entity", field.integer],
  answer: ["answer", field.optional(field.text)],
  rather: ["rather", field.optional(field.text)],
  labels: ["labels", field.text],
  template: ["template", field.optional(field.text)],
  methods: ["m", methods],
  target: ["target", field.optional(field.text)],
  of: ["of", field.choice(OF)],
  beside: ["beside", field.lines],
  generate: ["generate", field.optional(field.integer)],
  granularity: ["by", field.choice(GRANULARITIES)],
  weight: ["C", field.choice(WEIGHTS)],
  direction: ["dir", field.choice(DIRECTIONS)],
  token: ["tok", field.optional(field.integer)],
  coverage: ["p", field.optional(field.percent)],
  layers: ["L", field.optional(field.range)],
  heads: ["H", field.list(field.head)],
  tokens: ["pin", field.list(field.integer)],
  segments: ["seg", field.list(field.choice(SEGMENTS))],
  least: ["least", field.share],
  specials: ["specials", field.choice(SPECIALS)],
  classic: ["classic", field.optional(classic)],
  view: ["view", field.choice(VIEWS)],
  statistic: ["stat", field.choice(STATISTICS)],
  thumbnails: ["thumbs", field.flag],
  head: ["head", field.optional(field.head)],
  words: ["words", field.flag],
  strength: ["strength", field.share],
  smooth: ["smooth", field.flag],
  difference: ["diff", field.flag],
  tab: ["tab", field.text],
  rows: ["rows", field.text],
  data: ["data", field.optional(field.text)],
  result: ["result", field.optional(field.text)],
  run: ["run", field.optional(field.text)],
  found: ["found", field.text],
  card: ["card", field.optional(field.text)],
};

const NAMES = Object.keys(FIELDS) as (keyof Fields)[];

/** Format a state as a link. */
export function formatUrl(state: ViewState): string {
  const parts = NAMES.flatMap((name) => formatPart(name, state));
  return `#/${state.page}${parts.length > 0 ? `?${parts.join("&")}` : ""}`;
}

function formatPart<K extends keyof Fields>(name: K, state: ViewState): readonly string[] {
  const [key, { write }] = FIELDS[name];
  const value: ViewState[K] = state[name];
  const usual: ViewState[K] = DEFAULT[name];
  if (value === null) return [];
  if (usual !== null && write(value) === write(usual) && !isSpelledOut(name, state)) return [];
  return [`${key}=${encodePart(write(value))}`];
}

/**
 * Whether a field is written although it is the default: a link with a model also names its methods, since
 * defaults may change.
 */
function isSpelledOut(name: keyof Fields, { page, model, methods: chosen }: ViewState): boolean {
  return (
    name === "methods" && chosen.length > 0 && model !== "" && (page === "explain" || page === "compare")
  );
}

/** State of a link, and the problems in it. */
export interface ParsedUrl {
  readonly state: ViewState;
  readonly problems: readonly string[]; // parts of the link that could not be read, in sentences
}

/** Parse any link; unreadable parts get their default and are reported. */
export function parseUrl(hash: string): ParsedUrl {
  const [path = "", query = ""] = splitPath(hash.replace(/^#?\/?/, ""));
  const problems: string[] = [];
  const page = path === "" ? DEFAULT.page : field.choice(PAGES).read(path);
  if (page === undefined) problems.push(`There is no page “${path}”.`);
  const change: { -readonly [K in keyof ViewState]?: ViewState[K] } = { page: page ?? DEFAULT.page };
  const params = new URLSearchParams(query);
  for (const name of NAMES) readField(name, params, change, problems);
  if (params.get("text") === "") problems.push("The link's text is empty; an example stands in its place.");
  const known = new Set<string>(NAMES.map((name) => FIELDS[name][0]));
  for (const key of new Set(params.keys())) {
    if (!known.has(key)) problems.push(`The link says “${shorten(key)}”, which this page does not know.`);
  }
  return { state: { ...DEFAULT, ...change }, problems };
}

function readField<K extends keyof Fields>(
  name: K,
  params: URLSearchParams,
  change: { -readonly [N in keyof ViewState]?: ViewState[N] },
  problems: string[],
): void {
  const [key, { read }] = FIELDS[name];
  const text = params.get(key);
  if (text === null) return;
  const value: ViewState[K] | undefined = read(text);
  if (value === undefined)
    problems.push(`The link's ${key}=${shorten(text)} cannot be read; the default holds.`);
  else change[name] = value;
}

function splitPath(path: string): readonly string[] {
  const mark = path.indexOf("?");
  return mark < 0 ? [path] : [path.slice(0, mark), path.slice(mark + 1)];
}

/** Encode a part; half a surrogate pair becomes U+FFFD, as on the way to a server. */
function encodePart(text: string): string {
  const sound = text.replace(/\p{Surrogate}/gu, "\uFFFD");
  return encodeURIComponent(sound).replace(/%2C/g, ",").replace(/%20/g, "+");
}

function shorten(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
