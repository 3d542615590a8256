/** Two predictions, label by label. */

import type { Compared } from "../api/types";

export interface PredictionRow {
  readonly label: string;
  readonly a: number | null;
  readonly b: number | null;
  readonly change: string; // in points of a hundred
}

/** Every label that either model has, in A's order and then in B's; what a model does not know is null. */
export function predictionRows([a, b]: Compared["predictions"]): readonly PredictionRow[] {
  const labels = new Set([...Object.keys(a?.probabilities ?? {}), ...Object.keys(b?.probabilities ?? {})]);
  return [...labels].map((label) => {
    const [one, two] = [a?.probabilities[label] ?? null, b?.probabilities[label] ?? null];
    return { label, a: one, b: two, change: one === null || two === null ? "–" : points(two - one) };
  });
}

function points(change: number): string {
  const rounded = (100 * change).toFixed(1);
  if (rounded === "0.0" || rounded === "-0.0") return "0.0";
  return change > 0 ? `+${rounded}` : rounded.replace("-", "−");
}

/** What both can be asked about; a model without a head has no say in it. */
export function commonLabels(a: readonly string[], b: readonly string[]): readonly string[] {
  if (a.length === 0 || b.length === 0) return [...a, ...b];
  return a.filter((label) => b.includes(label));
}
