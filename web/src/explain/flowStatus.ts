/** Status line of the flow: shares of the visible edges, of the skip connections and of special tokens. */

import { type VisibleFlow, MAX_EDGES } from "../flow/visibleFlow";
import { computeLayerShares, formatRange, nameUnit } from "../flow/layerShares";
import { formatShare } from "../render/text";
import { formatCount, formatWhole } from "../shell/numberFormat";

/** Format the line. `among` names the edges that coverage refers to, such as "what the filters let through". */
export function formatFlowStatus(visible: VisibleFlow, among: string): string {
  const { flow, edges } = visible;
  const shares = computeLayerShares(visible);
  return [
    `shown ${formatCount(edges.length, "edge")} = ${formatRange(shares.map((each) => each.visible))} of ${nameUnit(flow)}, in each layer`,
    `past the layer ${formatRange(shares.map((each) => each.past))}`,
    `to special tokens ${formatRange(shares.map((each) => each.special))}`,
    formatCoverage(visible, among),
  ].join(" · ");
}

/** Format requested and reached coverage, both as shares of the candidate edges. */
function formatCoverage({ covered, coverage, capped }: VisibleFlow, among: string): string {
  if (!capped) return `coverage ${formatShare(covered)} of ${among}`;
  return `coverage ${formatShare(covered)} of ${among}, not ${formatShare(coverage)}: capped at the strongest ${formatWhole(MAX_EDGES)} edges`;
}

/** Format the slider's value: the coverage, or reached of requested where edges are capped. */
export function formatReachedCoverage({ covered, coverage, capped }: VisibleFlow): string {
  const requestedCoverage = formatShare(coverage);
  return capped ? `${formatShare(covered)} of ${requestedCoverage}` : requestedCoverage;
}
