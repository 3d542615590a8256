/**
 * Shares of visible edges, skip connection and special tokens in each layer: computed, and put into words.
 *
 * The unit passes every layer once, along edges or along the skip connection. Shares add up within a layer, never
 * across layers; sentences about several layers give a range.
 */

import type { Flow } from "../api/types";
import { formatShare } from "../render/text";
import type { VisibleEdge, VisibleFlow } from "./visibleFlow";

/** Shares of one layer. */
export interface LayerShares {
  readonly visible: number; // carried by visible edges
  readonly past: number; // carried by the skip connection
  readonly special: number; // carried by edges to special tokens, visible or not
}

/** Name the denominator of the shares. */
export function nameUnit({ direction }: Pick<Flow, "direction">): string {
  // Forward, many tokens read the same word, so levels do not sum to one.
  return direction === "forward" ? "what passes the layer" : "the unit that set out";
}

/** Compute the shares of every layer, from the input up; in a comparison of A, or of B. */
export function computeLayerShares(visible: VisibleFlow, whose: "a" | "b" = "a"): readonly LayerShares[] {
  const flow = whose === "b" && visible.other ? visible.other : visible.flow;
  const carried = sumByLayer(visible.edges, whose, flow.layers);
  return divideLayers(flow).map(({ past, special }, layer) => ({
    visible: (carried[layer] ?? 0) / computeWhole(flow, layer),
    past,
    special,
  }));
}

/** Compute the skip share and the special-token share of each layer, which do not depend on coverage. */
export function divideLayers(flow: Flow): readonly Omit<LayerShares, "visible">[] {
  return Array.from({ length: flow.layers }, (_, layer) => {
    const past = sum(flow.residual[layer] ?? []);
    const along = Math.max(0, sumPassing(flow, layer) - past);
    const whole = computeWhole(flow, layer);
    return { past: past / whole, special: ((flow.special_share[layer] ?? 0) * along) / whole };
  });
}

/** Format the mass at a node; forward, it is a share of the node's own content. */
export function formatMass({ direction }: Pick<Flow, "direction">, mass: number): string {
  return `${(100 * mass).toFixed(1)}% of ${direction === "forward" ? "what stands there" : "the unit"}`;
}

/** Divide the flow of edges in one layer by the layer's whole. */
export function normaliseToUnit(flow: Flow, layer: number, carried: number): number {
  return carried / computeWhole(flow, layer);
}

/** Format least and largest share of all layers, such as "3–31%". */
export function formatRange(shares: readonly number[]): string {
  if (shares.length === 0) return formatShare(0);
  const [low, high] = [formatShare(Math.min(...shares)), formatShare(Math.max(...shares))];
  return low === high ? low : `${low.slice(0, -1)}–${high}`;
}

/** Describe the shares for captions: "3–31% of the unit that set out in each layer, 50% goes past it". */
export function describeLayerShares(visible: VisibleFlow, whose: "a" | "b" = "a"): string {
  const shares = computeLayerShares(visible, whose);
  return (
    `${formatRange(shares.map((each) => each.visible))} of ${nameUnit(visible.flow)} in each layer, ` +
    `${formatRange(shares.map((each) => each.past))} goes past it`
  );
}

function sumByLayer(edges: readonly VisibleEdge[], whose: "a" | "b", layers: number): number[] {
  const carried = new Array<number>(layers).fill(0);
  const others = whose === "a" ? "b" : "a";
  for (const edge of edges) {
    if (edge.status === others) continue;
    carried[edge.layer] = (carried[edge.layer] ?? 0) + edge[whose];
  }
  return carried;
}

function computeWhole(flow: Flow, layer: number): number {
  return (flow.direction === "forward" ? sumPassing(flow, layer) : 1) || 1;
}

/** Sum the mass that passes a layer, measured on its far side. */
function sumPassing({ nodes, direction }: Flow, layer: number): number {
  return sum(nodes[direction === "forward" ? layer + 1 : layer] ?? []);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
