/** Labels of all choices: pages, views, weights, directions, special tokens, statistics, granularities, segments. */

import type { Direction, Granularity, SegmentPair, Statistic, WeightName } from "../api/types";
import type { PageName, Specials, ViewName } from "./state";

export const PAGES: Readonly<Record<PageName, string>> = {
  explain: "Explain",
  compare: "Compare",
  data: "Data set",
  results: "Results",
  runs: "Runs",
  help: "Help",
};

export const VIEWS: Readonly<Record<ViewName, string>> = {
  ladder: "Ladder",
  rings: "Rings",
  sankey: "Sankey",
  heatmap: "Heatmap",
  network: "Network",
};

export const WEIGHTS: Readonly<Record<WeightName, string>> = {
  attention: "attention",
  norm: "norm of the values",
  value_zeroing: "value zeroing",
  gradient_x_attention: "gradient × attention",
  relevance: "relevance",
};

export const DIRECTIONS: Readonly<Record<Direction, string>> = {
  back: "back",
  forward: "forward",
  through: "through",
};

export const SPECIALS: Readonly<Record<Specials, string>> = {
  gutter: "in the gutter",
  show: "drawn",
  hide: "hidden",
};

export const STATISTICS: Readonly<Record<Statistic, string>> = {
  entropy: "entropy",
  special: "special tokens",
  gradient: "gradient",
  ablation: "ablation",
};

export const GRANULARITIES: Readonly<Record<Granularity, string>> = {
  token: "tokens",
  word: "words",
  sentence: "sentences",
  paragraph: "paragraphs",
  passage: "marked passages",
};

export const SEGMENTS: Readonly<Record<SegmentPair, string>> = {
  "A>A": "within A",
  "A>B": "A attends to B",
  "B>A": "B attends to A",
  "B>B": "within B",
};

/** List the keys of a record of choices, in order. */
export function listNames<K extends string>(record: Readonly<Record<K, string>>): readonly K[] {
  return Object.keys(record) as K[];
}
