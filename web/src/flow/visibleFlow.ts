/** Visible edges: the smallest set that carries the requested share of the flow, of one model or of two. */

import type { Flow } from "../api/types";

/** Status of an edge: "only" in a single flow; in a comparison in both covering sets, in A's or in B's. */
export type EdgeStatus = "only" | "shared" | "a" | "b";

/** Edge that is drawn. */
export interface VisibleEdge {
  readonly index: number; // index in VisibleFlow.edges
  readonly layer: number;
  readonly head: number;
  readonly source: number;
  readonly to: number;
  readonly flow: number; // of two models, the maximum
  readonly weight: number;
  readonly status: EdgeStatus;
  readonly a: number; // flow in A; 0 where it is too small to have been sent
  readonly b: number; // flow in B, likewise
}

/** Flow with the edges that are drawn. */
export interface VisibleFlow {
  readonly flow: Flow;
  readonly other: Flow | null;
  readonly edges: readonly VisibleEdge[];
  readonly coverage: number; // requested share
  readonly covered: number; // share of the flow's total that the visible edges carry
  readonly coveredOther: number | null;
  readonly jaccard: number | null; // of the two covering sets; null without a second flow
  readonly capped: boolean; // true where the covering set is larger than the visible one
}

/** Most edges that are drawn: more are unreadable. */
export const MAX_EDGES = 5000;

// Relative rounding error of a sum of some thousand doubles in another order.
const ROUNDING = 1e-9;

/** Count the strongest edges that carry the share `p` of the total; all where they do not suffice. */
export function countCoveringEdges(flows: readonly number[], total: number, p: number): number {
  const target = total * (p - ROUNDING);
  let carried = 0;
  let count = 0;
  while (count < flows.length && carried < target) carried += flows[count++] ?? 0;
  return count;
}

/** Select the visible edges of one flow, or of two that are compared. */
export function selectVisible(flow: Flow, coverage: number, other: Flow | null = null): VisibleFlow {
  return other ? selectTwo(flow, other, coverage) : selectOne(flow, coverage);
}

function selectOne(flow: Flow, coverage: number): VisibleFlow {
  const count = countCoveringEdges(flow.edges.flow, flow.total, coverage);
  const visibleCount = Math.min(count, MAX_EDGES);
  const edges = Array.from({ length: visibleCount }, (_, index): VisibleEdge => {
    const edge = readEdge(flow, index);
    return { ...edge, index, status: "only", a: edge.flow, b: 0 };
  });
  const covered = divideShare(sumFlow(flow, visibleCount), flow.total);
  const capped = count > MAX_EDGES || endsEarly(flow, count, coverage);
  return { flow, other: null, edges, coverage, covered, coveredOther: null, jaccard: null, capped };
}

function selectTwo(flow: Flow, other: Flow, coverage: number): VisibleFlow {
  const counts = [
    countCoveringEdges(flow.edges.flow, flow.total, coverage),
    countCoveringEdges(other.edges.flow, other.total, coverage),
  ];
  const [inA, inB] = [counts[0] ?? 0, counts[1] ?? 0];
  const placesA = indexEdges(flow);
  const placesB = indexEdges(other);

  const union: Omit<VisibleEdge, "index">[] = [];
  let both = 0;
  for (let index = 0; index < inA; index++) {
    const edge = readEdge(flow, index);
    const twin = placesB.get(buildEdgeKey(edge));
    const isShared = twin !== undefined && twin < inB;
    if (isShared) both++;
    const b = twin === undefined ? 0 : (other.edges.flow[twin] ?? 0);
    union.push({ ...edge, flow: Math.max(edge.flow, b), status: isShared ? "shared" : "a", a: edge.flow, b });
  }
  for (let index = 0; index < inB; index++) {
    const edge = readEdge(other, index);
    const twin = placesA.get(buildEdgeKey(edge));
    if (twin !== undefined && twin < inA) continue;
    const a = twin === undefined ? 0 : (flow.edges.flow[twin] ?? 0);
    union.push({ ...edge, flow: Math.max(edge.flow, a), status: "b", a, b: edge.flow });
  }
  union.sort((x, y) => y.flow - x.flow || compareEdges(x, y));

  return {
    flow,
    other,
    edges: union.slice(0, MAX_EDGES).map((edge, index) => ({ ...edge, index })),
    coverage,
    covered: divideShare(sumFlow(flow, inA), flow.total),
    coveredOther: divideShare(sumFlow(other, inB), other.total),
    jaccard: union.length ? both / union.length : 1,
    capped: union.length > MAX_EDGES || endsEarly(flow, inA, coverage) || endsEarly(other, inB, coverage),
  };
}

type EdgePosition = Pick<VisibleEdge, "layer" | "head" | "source" | "to">;

function readEdge({ edges }: Flow, index: number): EdgePosition & { flow: number; weight: number } {
  return {
    layer: edges.layer[index] ?? 0,
    head: edges.head[index] ?? -1,
    source: edges.source[index] ?? 0,
    to: edges.to[index] ?? 0,
    flow: edges.flow[index] ?? 0,
    weight: edges.weight[index] ?? 0,
  };
}

function indexEdges(flow: Flow): Map<string, number> {
  return new Map(flow.edges.flow.map((_, index) => [buildEdgeKey(readEdge(flow, index)), index]));
}

function buildEdgeKey({ layer, head, source, to }: EdgePosition): string {
  return `${layer} ${head} ${source} ${to}`;
}

function compareEdges(x: EdgePosition, y: EdgePosition): number {
  return x.layer - y.layer || x.head - y.head || x.source - y.source || x.to - y.to;
}

function sumFlow({ edges }: Flow, count: number): number {
  let sum = 0;
  for (let index = 0; index < count; index++) sum += edges.flow[index] ?? 0;
  return sum;
}

/** Compute the share of the total that the `count` strongest edges carry. */
export function computeCarriedShare(flow: Flow, count: number): number {
  return divideShare(sumFlow(flow, count), flow.total);
}

function divideShare(part: number, total: number): number {
  return total > 0 ? Math.min(1, part / total) : 0;
}

/** Whether the edges that the server sent end before the requested share is reached. */
function endsEarly(flow: Flow, count: number, coverage: number): boolean {
  return count < flow.count && sumFlow(flow, count) < flow.total * (coverage - ROUNDING);
}
