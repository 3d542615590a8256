/** Chance level of the edge overlap: Jaccard index of random edge sets with as many edges in each layer. */

import type { VisibleFlow } from "../flow/visibleFlow";

/** Number of edges of A and B in one layer, and of edges to draw from. */
export interface SetSizes {
  readonly a: number;
  readonly b: number;
  readonly possible: number; // number of candidate edges
}

/** Probabilities of the number of shared edges, from `from` on; negligible ones are cut off. */
interface CountDistribution {
  readonly from: number;
  readonly chances: readonly number[];
}

const RARE = 1e-12;

/** Count both models' edges in each layer. */
export function countEdgesByLayer(
  edges: VisibleFlow["edges"],
  possible: readonly number[],
): readonly SetSizes[] {
  const sizes = possible.map((each) => ({ a: 0, b: 0, possible: each }));
  for (const { layer, status } of edges) {
    const size = sizes[layer];
    if (size === undefined) continue;
    if (status !== "b") size.a += 1;
    if (status !== "a") size.b += 1;
  }
  return sizes;
}

/**
 * The mean Jaccard index of random sets. In each layer the number of shared edges is hypergeometric,
 * P(K = k) = C(a, k) C(N - a, b - k) / C(N, b); layers add up, and the mean is Σ_k P(k) k / (a + b - k).
 * Null where there is nothing to share, or more edges than there are to draw from.
 */
export function computeChanceJaccard(sizes: readonly SetSizes[]): number | null {
  const all = sizes.reduce((sum, { a, b }) => sum + a + b, 0);
  if (all === 0 || sizes.some(({ a, b, possible }) => Math.max(a, b) > possible)) return null;
  const { from, chances } = sizes.map(computeSharedDistribution).reduce(convolve, { from: 0, chances: [1] });
  return chances.reduce((mean, chance, at) => mean + (chance * (from + at)) / (all - from - at), 0);
}

/** Hypergeometric distribution of the shared edges of one layer. */
function computeSharedDistribution({ a, b, possible }: SetSizes): CountDistribution {
  const from = Math.max(0, a + b - possible);
  const most = Math.min(a, b);
  const logs = [0];
  // By recurrence from one count to the next: factorials would overflow.
  for (let k = from; k < most; k++) {
    const step = ((a - k) * (b - k)) / ((k + 1) * (possible - a - b + k + 1));
    logs.push((logs.at(-1) ?? 0) + Math.log(step));
  }
  const highest = logs.reduce((best, each) => Math.max(best, each), -Infinity);
  return trimTails({ from, chances: logs.map((each) => Math.exp(each - highest)) });
}

/** Distribution of the sum of two independent counts. */
function convolve(x: CountDistribution, y: CountDistribution): CountDistribution {
  const chances = new Array<number>(x.chances.length + y.chances.length - 1).fill(0);
  x.chances.forEach((one, i) => {
    y.chances.forEach((other, j) => {
      chances[i + j] = (chances[i + j] ?? 0) + one * other;
    });
  });
  return trimTails({ from: x.from + y.from, chances });
}

/** Cut off both tails where probabilities are negligible. */
function trimTails({ from, chances }: CountDistribution): CountDistribution {
  const sum = chances.reduce((total, each) => total + each, 0);
  const isLikely = (each: number): boolean => each / sum > RARE;
  const first = chances.findIndex(isLikely);
  const last = chances.findLastIndex(isLikely);
  return { from: from + first, chances: chances.slice(first, last + 1).map((each) => each / sum) };
}
