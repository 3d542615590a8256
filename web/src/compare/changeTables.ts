/** Table rows of heads and layers that differ between two models, on one input and over a data set. */

import type { InputComparisonData, Comparison } from "../api/types";
import { formatFixed, formatPoints, formatInterval } from "../shell/numberFormat";
import type { TableOrder, Value } from "../shell/Table";

/** Number formats of the columns of the tables on one input. */
export const HEAD_FORMATS = [undefined, undefined, formatFixed, formatFixed];
export const LAYER_FORMATS = [undefined, formatFixed, formatFixed];

export const HEAD_COLUMNS = ["head", "layer", "all rows, bits", "decision's row, bits"];

/** Build one row for each changed head of one input. */
export function buildHeadRows({
  changed,
}: Pick<InputComparisonData, "changed">): readonly (readonly Value[])[] {
  return changed.map(({ layer, head, divergence, decision }) => [
    `${layer}.${head}`,
    layer,
    divergence,
    decision,
  ]);
}

export const LAYER_COLUMNS = ["layer", "all rows, bits", "decision's row, bits", "top head"];

/** Build one row for each layer, the most changed first. */
export function buildLayerRows({
  layers,
  divergence,
  decision,
}: Pick<InputComparisonData, "layers" | "divergence" | "decision">) {
  return layers
    .map((value, layer): readonly Value[] => {
      const row = divergence[layer] ?? [];
      const top = row.reduce<number>((best, each, at) => ((each ?? -1) > (row[best] ?? -1) ? at : best), 0);
      return [layer, value, computeMean(decision[layer] ?? []), `${layer}.${top}`];
    })
    .sort((x, y) => Number(y[1]) - Number(x[1]));
}

function computeMean(values: readonly (number | null)[]): number | null {
  const presentValues = values.filter((value) => value !== null);
  return presentValues.length === 0
    ? null
    : presentValues.reduce((sum, value) => sum + value, 0) / presentValues.length;
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

export const BY_DIVERGENCE: TableOrder = { column: 2, descending: true };

/** Number formats: divergence in bits, changes of a share in percentage points, as their intervals are. */
export const HEAD_DATA_FORMATS = [
  undefined,
  undefined,
  formatFixed,
  undefined,
  formatFixed,
  undefined,
  formatPoints,
];

/** Build one row for each head over a data set, the most divergent first. */
export function buildHeadDataRows(comparison: Pick<Comparison, "heads">): readonly (readonly Value[])[] {
  return [...comparison.heads]
    .sort((x, y) => (y.divergence.mean ?? 0) - (x.divergence.mean ?? 0))
    .map(({ layer, head, divergence, decision, special }) => [
      `${layer}.${head}`,
      layer,
      divergence.mean,
      formatInterval(divergence, formatFixed),
      decision.mean,
      formatInterval(decision, formatFixed),
      special.change.mean,
      formatInterval(special.change, formatPoints),
      divergence.n,
    ]);
}

/** Arrange the means of a statistic as layers by heads. */
export function buildMeanGrid(
  heads: Comparison["heads"],
  figure: "divergence" | "decision",
): (number | null)[][] {
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

export const LAYER_DATA_FORMATS = [
  undefined,
  formatFixed,
  undefined,
  formatFixed,
  formatFixed,
  undefined,
  formatFixed,
];

/** Build one row for each layer, with its baselines: divergence of different heads, overlap of random edges. */
export function buildLayerDataRows(comparison: Pick<Comparison, "layers">): readonly (readonly Value[])[] {
  return comparison.layers.map(({ layer, divergence, strangers, overlap, chance }) => [
    layer,
    divergence.mean,
    formatInterval(divergence, formatFixed),
    strangers.mean,
    overlap.mean,
    formatInterval(overlap, formatFixed),
    chance.mean,
    divergence.n,
  ]);
}

/** Find the largest value of a grid; 1 where all are 0, because a colour scale needs a length. */
export function findMaximum(grid: readonly (readonly (number | null)[])[]): number {
  return Math.max(0, ...grid.flat().map((value) => value ?? 0)) || 1;
}
