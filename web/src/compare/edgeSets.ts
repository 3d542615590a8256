/** What two models' edge sets have in common, counted and in words. */

import type { Compared } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import { count, percent } from "../shell/figures";
import { chanceJaccard, sizesOf } from "./chance";

export interface Counts {
  readonly shared: number;
  readonly a: number;
  readonly b: number;
}

export function counted(edges: ShownFlow["edges"]): Counts {
  const counts = { shared: 0, a: 0, b: 0 };
  for (const { status } of edges) if (status !== "only") counts[status] += 1;
  return counts;
}

/** Whether the models do exactly the same: every head attends alike, every edge carries as much, the logits are equal. */
export function identical({ divergence, difference, predictions: [a, b] }: Compared): boolean {
  const alike = divergence.every((row) => row.every((value) => value === 0));
  const flow = difference.a.every((value, at) => value === difference.b[at]);
  const said = JSON.stringify(a?.logits) === JSON.stringify(b?.logits);
  return alike && flow && said;
}

/** Which edges are counted; both parts of the page say it in these words. */
export function whichCount(specials: boolean): string {
  return specials ? "Edges to special tokens count." : "Edges to special tokens do not count.";
}

/** The sentence over the picture. `possible`: the edges of each layer that there are to draw from. */
export function setSentence(shown: ShownFlow, same: boolean, possible: readonly number[]): string {
  const { shared, a, b } = counted(shown.edges);
  if (same) return "Identical: every edge is shared, and every head attends alike.";
  const all = shared + a + b;
  const share = percent(shown.coverage);
  if (all === 0) return "No edge answers to the query in either model.";
  if (a + b === 0) {
    return `Every edge is shared: a coverage of ${share} takes the same ${count(all, "edge")} in both. They may differ in strength.`;
  }
  const chance = chanceJaccard(sizesOf(shown.edges, possible));
  const beside = chance === null ? "" : `; of random edges, as many in each layer, ${chance.toFixed(2)}`;
  const part = shown.jaccard === null ? "" : ` Jaccard index ${shown.jaccard.toFixed(2)}${beside}.`;
  return `${count(all, "edge")} for a coverage of ${share}: ${shared} shared, ${a} only in A, ${b} only in B.${part}`;
}
