/** The line that always stands under the flow: what is shown, and what is not. */

import { type ShownFlow, MOST } from "../flow/shown";
import { layerShares, spread, unitName } from "../flow/unit";
import { percent } from "../render/text";
import { count, grouped } from "../shell/figures";

/** `among` names the edges that coverage is counted in, such as "what the filters let through". */
export function statusOf(shown: ShownFlow, among: string): string {
  const { flow, edges } = shown;
  const shares = layerShares(shown);
  return [
    `shown ${count(edges.length, "edge")} = ${spread(shares.map((each) => each.shown))} of ${unitName(flow)}, in each layer`,
    `past the layer ${spread(shares.map((each) => each.past))}`,
    `to special tokens ${spread(shares.map((each) => each.special))}`,
    coverageOf(shown, among),
  ].join(" · ");
}

/** What was asked for and what is reached, both as shares of what the edges in question carry. */
function coverageOf({ covered, coverage, capped }: ShownFlow, among: string): string {
  if (!capped) return `coverage ${percent(covered)} of ${among}`;
  return `coverage ${percent(covered)} of ${among}, not ${percent(coverage)}: capped at the strongest ${grouped(MOST)} edges`;
}

/** What the slider says: what is covered, and where that is less than what was asked, both. */
export function reached({ covered, coverage, capped }: ShownFlow): string {
  const asked = percent(coverage);
  return capped ? `${percent(covered)} of ${asked}` : asked;
}
