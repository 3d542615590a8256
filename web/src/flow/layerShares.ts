/**
 * How each layer divides the unit that sets out: the one denominator of all figures of a flow.
 *
 * The unit passes every layer once, along edges or past it by the skip connection. So shares of it may be added up
 * within a layer, and never over layers: what is said of edges in several of them is said layer by layer.
 */

import type { Flow } from "../api/types";
import { percent } from "../render/text";
import type { ShownEdge, ShownFlow } from "./shown";

export interface LayerShares {
  readonly shown: number; // what the shown edges carry
  readonly past: number; // what goes past by the skip connection
  readonly special: number; // what edges carry to special tokens, shown or not
}

/** What the shares are of, in words. */
export function unitName({ direction }: Pick<Flow, "direction">): string {
  // What a word holds is taken up by many: forward, levels do not add up to one.
  return direction === "forward" ? "what passes the layer" : "the unit that set out";
}

/** The shares of every layer, from the input up; of a comparison those of A, or of B. */
export function layerShares(shown: ShownFlow, whose: "a" | "b" = "a"): readonly LayerShares[] {
  const flow = whose === "b" && shown.other ? shown.other : shown.flow;
  const carried = carriedBy(shown.edges, whose, flow.layers);
  return dividedBy(flow).map(({ past, special }, layer) => ({
    shown: (carried[layer] ?? 0) / wholeAt(flow, layer),
    past,
    special,
  }));
}

/** What goes past each layer and what its edges carry to special tokens: the same whatever is shown. */
export function dividedBy(flow: Flow): readonly Omit<LayerShares, "shown">[] {
  return Array.from({ length: flow.layers }, (_, layer) => {
    const past = sum(flow.residual[layer] ?? []);
    const along = Math.max(0, passing(flow, layer) - past);
    const whole = wholeAt(flow, layer);
    return { past: past / whole, special: ((flow.special_share[layer] ?? 0) * along) / whole };
  });
}

/** What stands at a place, in words; forward, levels hold what comes from the word. */
export function massInWords({ direction }: Pick<Flow, "direction">, mass: number): string {
  return `${(100 * mass).toFixed(1)}% of ${direction === "forward" ? "what stands there" : "the unit"}`;
}

/** What one edge, or some of one layer, carries of the unit. */
export function ofUnit(flow: Flow, layer: number, carried: number): number {
  return carried / wholeAt(flow, layer);
}

/** From the least to the most of all layers, such as "3–31%". */
export function spread(shares: readonly number[]): string {
  if (shares.length === 0) return percent(0);
  const [low, high] = [percent(Math.min(...shares)), percent(Math.max(...shares))];
  return low === high ? low : `${low.slice(0, -1)}–${high}`;
}

/** Such as "3–31% of the unit that set out per layer, 50% goes past": for captions and sentences. */
export function unitInWords(shown: ShownFlow, whose: "a" | "b" = "a"): string {
  const shares = layerShares(shown, whose);
  return (
    `${spread(shares.map((each) => each.shown))} of ${unitName(shown.flow)} in each layer, ` +
    `${spread(shares.map((each) => each.past))} goes past it`
  );
}

function carriedBy(edges: readonly ShownEdge[], whose: "a" | "b", layers: number): number[] {
  const carried = new Array<number>(layers).fill(0);
  const others = whose === "a" ? "b" : "a";
  for (const edge of edges) {
    if (edge.status === others) continue;
    carried[edge.layer] = (carried[edge.layer] ?? 0) + edge[whose];
  }
  return carried;
}

function wholeAt(flow: Flow, layer: number): number {
  return (flow.direction === "forward" ? passing(flow, layer) : 1) || 1;
}

/** All that passes a layer: what arrives on its far side. */
function passing({ nodes, direction }: Flow, layer: number): number {
  return sum(nodes[direction === "forward" ? layer + 1 : layer] ?? []);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
