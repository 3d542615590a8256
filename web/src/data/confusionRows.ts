/** Rows of the confusion matrix: true labels in rows, predicted ones in columns, with sums. */

import type { PredictionData } from "../api/types";

/** Counts of one true label. */
export interface ConfusionRow {
  readonly label: string;
  readonly cells: readonly { readonly predicted: string; readonly count: number; readonly share: number }[];
  readonly total: number;
}

/** Build the rows of the matrix; null without true labels. */
export function buildConfusionRows(predictions: PredictionData): readonly ConfusionRow[] | null {
  if (predictions.confusion === null) return null;
  const { labels } = predictions;
  return predictions.confusion.map((counts, at) => {
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

/** Count how often each label was predicted. */
export function countPredictions(rows: readonly ConfusionRow[]): readonly number[] {
  return (rows[0]?.cells ?? []).map((_, column) =>
    rows.reduce((sum, { cells }) => sum + (cells[column]?.count ?? 0), 0),
  );
}
