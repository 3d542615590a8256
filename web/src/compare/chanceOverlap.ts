/** How much two random sets of edges would share, with as many edges in each layer as two models' sets have. */

import type { ShownFlow } from "../flow/shown";

export interface Sizes {
  readonly a: number;
  readonly b: number;
  readonly possible: number; // edges there are to draw from
}

/** Chances of so many shared edges, from `from` on; what is too rare to matter is left out. */
interface Spread {
  readonly from: number;
  readonly chances: readonly number[];
}

const RARE = 1e-12;

/** The sizes of both sets by layer. */
export function sizesOf(edges: ShownFlow["edges"], possible: readonly number[]): readonly Sizes[] {
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
export function chanceJaccard(sizes: readonly Sizes[]): number | null {
  const all = sizes.reduce((sum, { a, b }) => sum + a + b, 0);
  if (all === 0 || sizes.some(({ a, b, possible }) => Math.max(a, b) > possible)) return null;
  const { from, chances } = sizes.map(sharedBy).reduce(added, { from: 0, chances: [1] });
  return chances.reduce((mean, chance, at) => mean + (chance * (from + at)) / (all - from - at), 0);
}

function sharedBy({ a, b, possible }: Sizes): Spread {
  const from = Math.max(0, a + b - possible);
  const most = Math.min(a, b);
  const logs = [0];
  // From one number to the next: factors of large numbers, which would overflow, cancel out.
  for (let k = from; k < most; k++) {
    const step = ((a - k) * (b - k)) / ((k + 1) * (possible - a - b + k + 1));
    logs.push((logs.at(-1) ?? 0) + Math.log(step));
  }
  const highest = logs.reduce((best, each) => Math.max(best, each), -Infinity);
  return trimmed({ from, chances: logs.map((each) => Math.exp(each - highest)) });
}

function added(x: Spread, y: Spread): Spread {
  const chances = new Array<number>(x.chances.length + y.chances.length - 1).fill(0);
  x.chances.forEach((one, i) => {
    y.chances.forEach((other, j) => {
      chances[i + j] = (chances[i + j] ?? 0) + one * other;
    });
  });
  return trimmed({ from: x.from + y.from, chances });
}

function trimmed({ from, chances }: Spread): Spread {
  const sum = chances.reduce((total, each) => total + each, 0);
  const likely = (each: number): boolean => each / sum > RARE;
  const first = chances.findIndex(likely);
  const last = chances.findLastIndex(likely);
  return { from: from + first, chances: chances.slice(first, last + 1).map((each) => each / sum) };
}
