/** Default coverage of a flow: half of it, or as much as stays readable. */

import type { Flow } from "../api/types";
import { computeCarriedShare, countCoveringEdges } from "./visibleFlow";

const HALF_COVERAGE = 0.5;
/** Largest number of edges that a picture opens with. */
export const READABLE_EDGES = 200;

/** Return the requested coverage, or the default: half, less where that takes too many edges. */
export function chooseCoverage(coverage: number | null, ...flows: readonly Flow[]): number {
  if (coverage !== null) return coverage;
  return Math.min(HALF_COVERAGE, ...flows.map(limitCoverage));
}

function limitCoverage(flow: Flow): number {
  if (countCoveringEdges(flow.edges.flow, flow.total, HALF_COVERAGE) <= READABLE_EDGES) return HALF_COVERAGE;
  // Whole percents, as on the slider; at least 1%.
  return Math.max(0.01, Math.floor(100 * computeCarriedShare(flow, READABLE_EDGES)) / 100);
}
