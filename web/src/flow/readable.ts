/** How much of a flow to show when nobody has said: half of it, or what still can be read. */

import type { Flow } from "../api/types";
import { carriedShare, cover } from "./shown";

const HALF = 0.5;
export const EDGES = 200;

/** What was asked for; or half of the flow, and less where that takes more edges than a picture bears. */
export function readable(asked: number | null, ...flows: readonly Flow[]): number {
  if (asked !== null) return asked;
  return Math.min(HALF, ...flows.map(bearable));
}

function bearable(flow: Flow): number {
  if (cover(flow.edges.flow, flow.total, HALF) <= EDGES) return HALF;
  // Whole percents, as the slider has them; at least one of them.
  return Math.max(0.01, Math.floor(100 * carriedShare(flow, EDGES)) / 100);
}
