/** The whole state of the page. A link is this state, and this state is a link. */

import type { Direction, Granularity, SegmentPair, Statistic, WeightName } from "../api/types";

export type PageName = "explain" | "compare" | "data" | "results" | "runs" | "help";
export type ViewName = "ladder" | "rings" | "sankey" | "heatmap" | "network";
export type Specials = "gutter" | "show" | "hide";
export type HeadId = readonly [layer: number, head: number];

export interface ViewState {
  readonly page: PageName;
  // What is asked.
  readonly model: string; // empty: the server's first
  readonly other: string; // the second model of a comparison, empty: the server's
  readonly text: string;
  readonly pair: string | null;
  readonly picture: string | null; // the server's name for it: its bytes are in no link
  readonly at: string | null; // which word, token or mask
  readonly entity: number; // which of those that a tagger found
  readonly answer: string | null; // what a language model might go on with
  readonly rather: string | null; // rather than this
  readonly labels: string; // to choose from, with commas between; empty: the model's own
  readonly template: string | null; // the sentence that such a label is put in
  readonly methods: readonly string[]; // up to four, the first tints the text; none: the usual one of the model
  readonly target: string | null; // null: what was predicted
  readonly of: "logit" | "probability";
  readonly beside: readonly string[]; // other targets, side by side with that one; pictures only
  readonly generate: number | null; // tokens to let a language model write
  readonly granularity: Granularity; // of the prompt then
  // What flows.
  readonly weight: WeightName;
  readonly direction: Direction;
  readonly token: number | null; // null: the decision
  readonly coverage: number | null; // 0..1; null: half of the flow, or what can be read
  readonly layers: readonly [number, number] | null;
  readonly heads: readonly HeadId[];
  readonly tokens: readonly number[]; // pinned words: edges that touch them
  readonly segments: readonly SegmentPair[];
  readonly least: number;
  readonly specials: Specials;
  readonly classic: { readonly threshold: number; readonly decay: number; readonly carry: boolean } | null;
  // How it is shown.
  readonly view: ViewName;
  readonly statistic: Statistic;
  readonly thumbnails: boolean;
  readonly head: HeadId | null; // whose matrix is open
  readonly words: boolean; // words rather than tokens in the text
  readonly strength: number; // 0..1: how strong the colours over a picture are
  readonly smooth: boolean; // over a picture: from patch to patch without steps
  readonly difference: boolean; // in a comparison: values instead of sets
  // Other pages.
  readonly tab: string; // a page's part; empty: its first
  readonly rows: string; // which rows of a data set, in which order: see data/rows.ts
  readonly data: string | null;
  readonly result: string | null;
  readonly run: string | null;
  readonly against: string | null; // a second run, beside that one
  readonly found: string; // which rows of a run: see runs/rowlink.ts
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
  against: null,
  found: "",
  card: null,
};
