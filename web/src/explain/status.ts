/** The line that always stands under the flow: what is shown, and what is not. */

import type { Flow } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import { count } from "../shell/figures";

/** `among` names what the filters leave, such as "what the filters let through". */
export function statusOf({ flow, edges, covered, capped }: ShownFlow, among: string): string {
  const part = flow.whole > 0 ? (covered * flow.total) / flow.whole : 0;
  const isFiltered = flow.whole - flow.total > 1e-9 * flow.whole;
  return [
    `shown ${count(edges.length, "edge")} = ${whole(part)} of the flow${isFiltered ? ` (${whole(covered)} of ${among})` : ""}`,
    `special tokens ${whole(specialShare(flow))}`,
    `residual ${spread(flow.residual_share)} per layer`,
    ...(capped ? ["capped: more edges belong here than are drawn"] : []),
  ].join(" · ");
}

/** Of all that flows along edges, what ends on special tokens: the layers' shares, by what flows in each. */
export function specialShare({ special_share: shares, residual_share: past, nodes }: Flow): number {
  let [along, special] = [0, 0];
  shares.forEach((share, layer) => {
    if (share === null) return;
    const moved = sum(nodes[layer + 1] ?? []) * (1 - (past[layer] ?? 0));
    along += moved;
    special += share * moved;
  });
  return along > 0 ? special / along : 0;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function spread(shares: readonly (number | null)[]): string {
  const known = shares.filter((share) => share !== null);
  if (known.length === 0) return "not known";
  const [low, high] = [whole(Math.min(...known)), whole(Math.max(...known))];
  return low === high ? low : `${low.slice(0, -1)}–${high}`;
}

function whole(share: number): string {
  return `${Math.round(100 * share)}%`;
}
