/** Overlap of two models' edge sets: counts and the sentence about them. */

import type { InputComparisonData } from "../api/types";
import type { VisibleFlow } from "../flow/visibleFlow";
import { formatCount, formatPercent } from "../shell/numberFormat";
import { computeChanceJaccard, countEdgesByLayer } from "./chanceOverlap";

/** Number of edges shared, only in A, only in B. */
export interface EdgeCounts {
  readonly shared: number;
  readonly a: number;
  readonly b: number;
}

/** Count edges by their status. */
export function countEdges(edges: VisibleFlow["edges"]): EdgeCounts {
  const counts = { shared: 0, a: 0, b: 0 };
  for (const { status } of edges) if (status !== "only") counts[status] += 1;
  return counts;
}

/** Whether both models give the same attention, the same flow and the same logits. */
export function areIdentical({ divergence, difference, predictions: [a, b] }: InputComparisonData): boolean {
  const alike = divergence.every((row) => row.every((value) => value === 0));
  const flow = difference.a.every((value, at) => value === difference.b[at]);
  const isSamePrediction = JSON.stringify(a?.logits) === JSON.stringify(b?.logits);
  return alike && flow && isSamePrediction;
}

/** Say whether edges to special tokens are counted; both tabs use this sentence. */
export function describeSpecials(specials: boolean): string {
  return specials ? "Edges to special tokens count." : "Edges to special tokens do not count.";
}

/** Sentence above the picture. `possible`: number of candidate edges in each layer, for the chance level. */
export function describeOverlap(visible: VisibleFlow, same: boolean, possible: readonly number[]): string {
  const { shared, a, b } = countEdges(visible.edges);
  if (same) return "Identical: every edge is shared, and every head attends alike.";
  const all = shared + a + b;
  const share = formatPercent(visible.coverage);
  if (all === 0) return "No edge answers to the query in either model.";
  if (a + b === 0) {
    return `Every edge is shared: a coverage of ${share} takes the same ${formatCount(all, "edge")} in both. They may differ in strength.`;
  }
  const chance = computeChanceJaccard(countEdgesByLayer(visible.edges, possible));
  const beside = chance === null ? "" : `; of random edges, as many in each layer, ${chance.toFixed(2)}`;
  const part = visible.jaccard === null ? "" : ` Jaccard index ${visible.jaccard.toFixed(2)}${beside}.`;
  return `${formatCount(all, "edge")} for a coverage of ${share}: ${shared} shared, ${a} only in A, ${b} only in B.${part}`;
}
