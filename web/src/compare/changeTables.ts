/** The most changed heads and layers, as rows of tables. */

import type { Compared, Comparison } from "../api/types";
import { fixed, points, range } from "../shell/figures";
import type { Order, Value } from "../shell/Table";

/** Of the tables on one input. */
export const HEAD_UNITS = [undefined, undefined, fixed, fixed];
export const LAYER_UNITS = [undefined, fixed, fixed];

export const HEAD_COLUMNS = ["head", "layer", "all rows, bits", "decision's row, bits"];

export function headRows({ changed }: Pick<Compared, "changed">): readonly (readonly Value[])[] {
  return changed.map(({ layer, head, divergence, decision }) => [
    `${layer}.${head}`,
    layer,
    divergence,
    decision,
  ]);
}

export const LAYER_COLUMNS = ["layer", "all rows, bits", "decision's row, bits", "top head"];

/** One row a layer, the most changed first. */
export function layerRows({
  layers,
  divergence,
  decision,
}: Pick<Compared, "layers" | "divergence" | "decision">) {
  return layers
    .map((value, layer): readonly Value[] => {
      const row = divergence[layer] ?? [];
      const top = row.reduce<number>((best, each, at) => ((each ?? -1) > (row[best] ?? -1) ? at : best), 0);
      return [layer, value, mean(decision[layer] ?? []), `${layer}.${top}`];
    })
    .sort((x, y) => Number(y[1]) - Number(x[1]));
}

function mean(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}

export const HEAD_DATA_COLUMNS = [
  "head",
  "layer",
  "divergence, bits",
  "95% interval",
  "decision's row, bits",
  "95% interval (decision)",
  "to specials, change",
  "95% interval (change)",
  "n",
];

export const BY_DIVERGENCE: Order = { column: 2, descending: true };

/** Divergence in bits, changes of a share in points of a hundred, as their intervals are. */
export const HEAD_DATA_UNITS = [undefined, undefined, fixed, undefined, fixed, undefined, points];

export function headDataRows(comparison: Pick<Comparison, "heads">): readonly (readonly Value[])[] {
  return [...comparison.heads]
    .sort((x, y) => (y.divergence.mean ?? 0) - (x.divergence.mean ?? 0))
    .map(({ layer, head, divergence, decision, special }) => [
      `${layer}.${head}`,
      layer,
      divergence.mean,
      range(divergence, fixed),
      decision.mean,
      range(decision, fixed),
      special.change.mean,
      range(special.change, points),
      divergence.n,
    ]);
}

/** Layers by heads, of a figure's means. */
export function meanGrid(heads: Comparison["heads"], figure: "divergence" | "decision"): (number | null)[][] {
  const grid: (number | null)[][] = [];
  for (const each of heads) {
    const row = (grid[each.layer] ??= []);
    row[each.head] = each[figure].mean;
  }
  return grid;
}

export const LAYER_DATA_COLUMNS = [
  "layer",
  "divergence, bits",
  "95% interval",
  "different heads, bits",
  "flow overlap",
  "95% interval (overlap)",
  "random edges",
  "n",
];

export const LAYER_DATA_UNITS = [undefined, fixed, undefined, fixed, fixed, undefined, fixed];

/** Each layer beside what says how much it is: heads that are strangers, and edges by chance. */
export function layerDataRows(comparison: Pick<Comparison, "layers">): readonly (readonly Value[])[] {
  return comparison.layers.map(({ layer, divergence, strangers, overlap, chance }) => [
    layer,
    divergence.mean,
    range(divergence, fixed),
    strangers.mean,
    overlap.mean,
    range(overlap, fixed),
    chance.mean,
    divergence.n,
  ]);
}

/** The largest of a grid, and never 0: a scale needs a length, and all of a bit is as good as any. */
export function highest(grid: readonly (readonly (number | null)[])[]): number {
  return Math.max(0, ...grid.flat().map((value) => value ?? 0)) || 1;
}
