/** Rows of the table of two predictions, label by label with the change; and labels common to both models. */

import type { InputComparisonData } from "../api/types";

/** Probabilities of one label in A and B. */
export interface PredictionRow {
  readonly label: string;
  readonly a: number | null;
  readonly b: number | null;
  readonly change: string; // in percentage points
}

/** Build a row for every label of either model, A's first; null where a model lacks the label. */
export function buildPredictionRows([a, b]: InputComparisonData["predictions"]): readonly PredictionRow[] {
  const labels = new Set([...Object.keys(a?.probabilities ?? {}), ...Object.keys(b?.probabilities ?? {})]);
  return [...labels].map((label) => {
    const [one, two] = [a?.probabilities[label] ?? null, b?.probabilities[label] ?? null];
    return { label, a: one, b: two, change: one === null || two === null ? "–" : formatChange(two - one) };
  });
}

/** Format a change of probability in percentage points, with its sign. */
function formatChange(change: number): string {
  const rounded = (100 * change).toFixed(1);
  if (rounded === "0.0" || rounded === "-0.0") return "0.0";
  return change > 0 ? `+${rounded}` : rounded.replace("-", "−");
}

/** List the labels of both models; where one has no classification head, those of the other. */
export function findCommonLabels(a: readonly string[], b: readonly string[]): readonly string[] {
  if (a.length === 0 || b.length === 0) return [...a, ...b];
  return a.filter((label) => b.includes(label));
}
