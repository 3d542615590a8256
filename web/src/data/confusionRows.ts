/** The confusion table: true labels in rows, predicted ones in columns, with sums. */

import type { Predicted } from "../api/types";

export interface ConfusionRow {
  readonly label: string;
  readonly cells: readonly { readonly predicted: string; readonly count: number; readonly share: number }[];
  readonly total: number;
}

export function confusionRows(predicted: Predicted): readonly ConfusionRow[] | null {
  if (predicted.confusion === null) return null;
  const { labels } = predicted;
  return predicted.confusion.map((counts, at) => {
    const total = counts.reduce((sum, count) => sum + count, 0);
    return {
      label: labels[at] ?? String(at),
      total,
      cells: counts.map((count, column) => ({
        predicted: labels[column] ?? String(column),
        count,
        share: total === 0 ? 0 : count / total,
      })),
    };
  });
}

/** How often each label was predicted. */
export function predictedSums(rows: readonly ConfusionRow[]): readonly number[] {
  return (rows[0]?.cells ?? []).map((_, column) =>
    rows.reduce((sum, { cells }) => sum + (cells[column]?.count ?? 0), 0),
  );
}
