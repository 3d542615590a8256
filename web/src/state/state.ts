/** Page state that a link holds: input, flow, view and page choices, with their defaults. */

import type { Direction, Granularity, SegmentPair, Statistic, WeightName } from "../api/types";

export type PageName = "explain" | "compare" | "data" | "results" | "runs" | "help";
export type ViewName = "ladder" | "rings" | "sankey" | "heatmap" | "network";
export type Specials = "gutter" | "show" | "hide";
export type HeadId = readonly [layer: number, head: number];

export interface ViewState {
  readonly page: PageName;
  // The input.
  readonly model: string; // empty: the server's first
  readonly other: string; // the second model of a comparison, empty: the server's
  readonly text: string;
  readonly pair: string | null;
  readonly picture: string | null; // the server's id: a link does not hold its bytes
  readonly at: string | null; // position of the word, token or mask
  readonly entity: number; // index among the tagger's entities
  readonly answer: string | null; // continuation to explain, of a language model
  readonly rather: string | null; // contrast to that continuation
  readonly labels: string; // candidate labels, separated by commas; empty: the model's own
  readonly template: string | null; // sentence template of such a label
  readonly methods: readonly string[]; // up to four, the first tints the text; none: the model's default
  readonly target: string | null; // null: the predicted class
  readonly of: "logit" | "probability";
  readonly beside: readonly string[]; // other targets side by side; pictures only
  readonly generate: number | null; // number of tokens to generate
  readonly granularity: Granularity; // parts of the prompt, for generation
  // The flow.
  readonly weight: WeightName;
  readonly direction: Direction;
  readonly token: number | null; // null: the decision
  readonly coverage: number | null; // 0..1; null: half of the flow, or as much as is readable
  readonly layers: readonly [number, number] | null;
  readonly heads: readonly HeadId[];
  readonly tokens: readonly number[]; // pinned words: edges that touch them
  readonly segments: readonly SegmentPair[];
  readonly least: number;
  readonly specials: Specials;
  readonly classic: { readonly threshold: number; readonly decay: number; readonly carry: boolean } | null;
  // The view.
  readonly view: ViewName;
  readonly statistic: Statistic;
  readonly thumbnails: boolean;
  readonly head: HeadId | null; // head of the open matrix
  readonly words: boolean; // words rather than tokens in the text
  readonly strength: number; // 0..1: strength of the colours over a picture
  readonly smooth: boolean; // over a picture: interpolate between patches
  readonly difference: boolean; // comparison by values instead of sets
  // Other pages.
  readonly tab: string; // tab of a page; empty: the first
  readonly rows: string; // query of a data set's rows: see data/rowQuery.ts
  readonly data: string | null;
  readonly result: string | null;
  readonly run: string | null;
  readonly found: string; // query of a run's rows: see runs/runRowQuery.ts
  readonly card: string | null;
}

export const DEFAULT: ViewState = {
  page: "explain",
  model: "",
  other: "",
  text: "",
  pair: null,
  picture: null,
  at: null,
  entity: 0,
  answer: null,
  rather: null,
  labels: "",
  template: null,
  methods: [],
  target: null,
  of: "logit",
  beside: [],
  generate: null,
  granularity: "token",
  weight: "attention",
  direction: "back",
  token: null,
  coverage: null,
  layers: null,
  heads: [],
  tokens: [],
  segments: [],
  least: 0,
  specials: "gutter",
  classic: null,
  view: "ladder",
  statistic: "entropy",
  thumbnails: false,
  head: null,
  words: true,
  strength: 1,
  smooth: true,
  difference: false,
  tab: "",
  rows: "",
  data: null,
  result: null,
  run: null,
  found: "",
  card: null,
};
