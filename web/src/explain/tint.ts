/** From scores to the colours of words. The largest |score| of a word is full colour; special tokens do not set the scale. */

import type { OneExplanation } from "../api/types";
import { contrast, inkOn } from "../render/theme";
import type { Theme } from "../render/scene";

export interface Tint {
  readonly background: string;
  readonly color: string;
}

export function largest({ word_scores }: OneExplanation): number {
  return word_scores.reduce((most, score) => Math.max(most, Math.abs(score)), 0);
}

/** A shade in [-1, 1] as colours; the ink has 4.5:1 on it. */
export function tint(shade: number, signed: boolean, theme: Theme): Tint {
  // The root keeps small scores visible.
  const strength = 0.85 * Math.abs(shade) ** 0.7;
  const background = signed ? theme.signed(Math.sign(shade) * strength) : theme.sequential(strength);
  return { background, color: contrast(background, theme.ink) >= 4.5 ? theme.ink : inkOn(background) };
}

export function shadeOf(score: number, most: number): number {
  return most > 0 ? Math.max(-1, Math.min(1, score / most)) : 0;
}
