/** The edges that are shown: the smallest set that carries the wanted share of the flow, of one model or of two. */

import type { Flow } from "../api/types";

/** In one flow every edge is its "only"; in a comparison it is in both covering sets, in A's or in B's. */
export type Status = "only" | "shared" | "a" | "b";

export interface ShownEdge {
  readonly index: number; // its place in ShownFlow.edges
  readonly layer: number;
  readonly head: number;
  readonly source: number;
  readonly to: number;
  readonly flow: number; // of two models, the larger
  readonly weight: number;
  readonly status: Status;
  readonly a: number; // flow in A; 0 where it is too small to have been sent
  readonly b: number; // flow in B, likewise
}

export interface ShownFlow {
  readonly flow: Flow;
  readonly other: Flow | null;
  readonly edges: readonly ShownEdge[];
  readonly coverage: number; // what was asked for
  readonly covered: number; // what the shown edges carry of the flow's total
  readonly coveredOther: number | null;
  readonly jaccard: number | null; // of the two covering sets; null without a second flow
  readonly capped: boolean; // more edges belong here than are drawn
}

/** A picture of more edges is a picture of none. */
export const MOST = 5000;

// Sums of some thousand doubles in another order differ by less than this part of their total.
const ROUNDING = 1e-9;

/** How many of the strongest edges it takes to carry the share `p` of the total; all of them where they do not. */
export function cover(flows: readonly number[], total: number, p: number): number {
  const wanted = total * (p - ROUNDING);
  let carried = 0;
  let count = 0;
  while (count < flows.length && carried < wanted) carried += flows[count++] ?? 0;
  return count;
}

/** Find the edges to show of one flow, or of two that are held against each other. */
export function shown(flow: Flow, coverage: number, other: Flow | null = null): ShownFlow {
  return other ? compared(flow, other, coverage) : alone(flow, coverage);
}

function alone(flow: Flow, coverage: number): ShownFlow {
  const count = cover(flow.edges.flow, flow.total, coverage);
  const drawn = Math.min(count, MOST);
  const edges = Array.from({ length: drawn }, (_, index): ShownEdge => {
    const edge = at(flow, index);
    return { ...edge, index, status: "only", a: edge.flow, b: 0 };
  });
  const covered = share(carried(flow, drawn), flow.total);
  const capped = count > MOST || isShort(flow, count, coverage);
  return { flow, other: null, edges, coverage, covered, coveredOther: null, jaccard: null, capped };
}

function compared(flow: Flow, other: Flow, coverage: number): ShownFlow {
  const counts = [
    cover(flow.edges.flow, flow.total, coverage),
    cover(other.edges.flow, other.total, coverage),
  ];
  const [inA, inB] = [counts[0] ?? 0, counts[1] ?? 0];
  const placesA = places(flow);
  const placesB = places(other);

  const union: Omit<ShownEdge, "index">[] = [];
  let both = 0;
  for (let index = 0; index < inA; index++) {
    const edge = at(flow, index);
    const twin = placesB.get(key(edge));
    const isShared = twin !== undefined && twin < inB;
    if (isShared) both++;
    const b = twin === undefined ? 0 : (other.edges.flow[twin] ?? 0);
    union.push({ ...edge, flow: Math.max(edge.flow, b), status: isShared ? "shared" : "a", a: edge.flow, b });
  }
  for (let index = 0; index < inB; index++) {
    const edge = at(other, index);
    const twin = placesA.get(key(edge));
    if (twin !== undefined && twin < inA) continue;
    const a = twin === undefined ? 0 : (flow.edges.flow[twin] ?? 0);
    union.push({ ...edge, flow: Math.max(edge.flow, a), status: "b", a, b: edge.flow });
  }
  union.sort((x, y) => y.flow - x.flow || inOrder(x, y));

  return {
    flow,
    other,
    edges: union.slice(0, MOST).map((edge, index) => ({ ...edge, index })),
    coverage,
    covered: share(carried(flow, inA), flow.total),
    coveredOther: share(carried(other, inB), other.total),
    jaccard: union.length ? both / union.length : 1,
    capped: union.length > MOST || isShort(flow, inA, coverage) || isShort(other, inB, coverage),
  };
}

type Place = Pick<ShownEdge, "layer" | "head" | "source" | "to">;

function at({ edges }: Flow, index: number): Place & { flow: number; weight: number } {
  return {
    layer: edges.layer[index] ?? 0,
    head: edges.head[index] ?? -1,
    source: edges.source[index] ?? 0,
    to: edges.to[index] ?? 0,
    flow: edges.flow[index] ?? 0,
    weight: edges.weight[index] ?? 0,
  };
}

function places(flow: Flow): Map<string, number> {
  return new Map(flow.edges.flow.map((_, index) => [key(at(flow, index)), index]));
}

function key({ layer, head, source, to }: Place): string {
  return `${layer} ${head} ${source} ${to}`;
}

function inOrder(x: Place, y: Place): number {
  return x.layer - y.layer || x.head - y.head || x.source - y.source || x.to - y.to;
}

function carried({ edges }: Flow, count: number): number {
  let sum = 0;
  for (let index = 0; index < count; index++) sum += edges.flow[index] ?? 0;
  return sum;
}

/** What so many of the strongest edges carry, as a share of all. */
export function carriedShare(flow: Flow, count: number): number {
  return share(carried(flow, count), flow.total);
}

function share(part: number, total: number): number {
  return total > 0 ? Math.min(1, part / total) : 0;
}

/** Whether the edges that were sent end before the wanted share is reached. */
function isShort(flow: Flow, count: number, coverage: number): boolean {
  return count < flow.count && carried(flow, count) < flow.total * (coverage - ROUNDING);
}
