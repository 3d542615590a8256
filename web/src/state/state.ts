/** The whole state of the page. A link is this state, and this state is a link. */

import type { Direction, SegmentPair, Statistic, WeightName } from "../api/types";

export type PageName = "explain" | "compare" | "data" | "results" | "help";
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
  readonly methods: readonly string[]; // one to four; the first tints the text
  readonly target: string | null; // null: what was predicted
  readonly of: "logit" | "probability";
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
  readonly difference: boolean; // in a comparison: values instead of sets
  // Other pages.
  readonly tab: string; // a page's part; empty: its first
  readonly rows: string; // which rows of a data set, in which order: see data/rows.ts
  readonly data: string | null;
  readonly result: string | null;
  readonly card: string | null;
}

export const DEFAULT: ViewState = {
  page: "explain",
  model: "",
  other: "",
  text: "",
  pair: null,
  methods: ["attcat"],
  target: null,
  of: "logit",
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
  difference: false,
  tab: "",
  rows: "",
  data: null,
  result: null,
  card: null,
};
