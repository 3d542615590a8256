/** Edge filter for a file's edges, equal to the server's filter. */

import type { Flow, Query, Token } from "../api/types";

type Edges = Flow["edges"];

/** Whether a query selects all edges, apart from those that end on special tokens. */
export function isUnfiltered(query: Query): boolean {
  return (
    (query.layers ?? null) === null &&
    query.heads.length + query.tokens.length + query.segments.length === 0 &&
    query.least === 0
  );
}

/** Return the indices of the edges that a query selects, in order. */
export function filterEdges(edges: Edges, query: Query, tokens: readonly Token[]): readonly number[] {
  const heads = new Set(query.heads.map(([layer, head]) => `${layer}.${head}`));
  // Weights without heads (head -1): a requested head selects its whole layer.
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

/** Filter a flow. Its total covers only the edges in the file: nothing is known about others. */
export function filterFlow(
  { specials, ...flow }: Flow & { specials: boolean },
  query: Query,
  most: number,
): Flow {
  const isUnchanged = isUnfiltered(query) && specials === query.specials;
  if (isUnchanged && flow.edges.layer.length <= most) return flow;
  const places = filterEdges(flow.edges, query, flow.tokens);
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
  if (isUnchanged) return carried;
  const total = sum(places.map((place) => flows[place] ?? 0));
  return { ...carried, count: places.length, total, note: buildNote(flow, specials, query) };
}

function buildNote(flow: Flow, specials: boolean, query: Query): string {
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
