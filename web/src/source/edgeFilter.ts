/** A query put to edges that are there already, as the server would put it to all of them. */

import type { Flow, Query, Token } from "../api/types";

type Edges = Flow["edges"];

/** Whether a query wants no less than all edges, those that end on special tokens apart. */
export function isOpen(query: Query): boolean {
  return (
    (query.layers ?? null) === null &&
    query.heads.length + query.tokens.length + query.segments.length === 0 &&
    query.least === 0
  );
}

/** The places of the edges that a query wants, in their order. */
export function wanted(edges: Edges, query: Query, tokens: readonly Token[]): readonly number[] {
  const heads = new Set(query.heads.map(([layer, head]) => `${layer}.${head}`));
  // Where a weight sees all heads of a layer together, a head that is asked for stands for its layer.
  const layers = new Set(query.heads.map(([layer]) => layer));
  const touched = new Set(query.tokens);
  const segments = new Set<string>(query.segments);
  const side = (token: number): string => (tokens[token]?.segment === 1 ? "B" : "A");
  return edges.layer.flatMap((layer, place) => {
    const [head, source, to] = [edges.head[place] ?? -1, edges.source[place] ?? 0, edges.to[place] ?? 0];
    const holds =
      (!query.layers || (layer >= query.layers[0] && layer <= query.layers[1])) &&
      (heads.size === 0 || heads.has(`${layer}.${head}`) || (head === -1 && layers.has(layer))) &&
      (touched.size === 0 || touched.has(source) || touched.has(to)) &&
      (segments.size === 0 || segments.has(`${side(source)}>${side(to)}`)) &&
      (edges.weight[place] ?? 0) >= query.least &&
      (query.specials || tokens[to]?.special !== true);
    return holds ? [place] : [];
  });
}

/** The flow with only those edges. Of edges that a file does not carry nothing is known, so a total is of those it has. */
export function narrowed(
  { specials, ...flow }: Flow & { specials: boolean },
  query: Query,
  most: number,
): Flow {
  const asCarried = isOpen(query) && specials === query.specials;
  if (asCarried && flow.edges.layer.length <= most) return flow;
  const places = wanted(flow.edges, query, flow.tokens);
  const sent = places.slice(0, most);
  const pick = (column: readonly number[]): number[] => sent.map((place) => column[place] ?? 0);
  const { layer, head, source, to, flow: flows, weight } = flow.edges;
  const edges = {
    layer: pick(layer),
    head: pick(head),
    source: pick(source),
    to: pick(to),
    flow: pick(flows),
    weight: pick(weight),
  };
  const carried = { ...flow, edges, sent: sum(edges.flow) };
  if (asCarried) return carried;
  const total = sum(places.map((place) => flows[place] ?? 0));
  return { ...carried, count: places.length, total, note: noted(flow, specials, query) };
}

function noted(flow: Flow, specials: boolean, query: Query): string {
  const carried = flow.edges.layer.length;
  const notes = [flow.note];
  if (query.specials && !specials)
    notes.push("Edges that end on special tokens are not in this file for this trace.");
  if (carried < flow.count) {
    notes.push(
      `This file carries only the ${carried} strongest of ${flow.count} edges; the filter chose among them.`,
    );
  }
  return notes.join(" ");
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
