/** Tints of scored words: colour scale of a method's scores, shade of a score, background and ink of a shade. */

import type { ServerScale } from "../api/types";
import { computeContrast, chooseInk } from "./theme";
import type { Theme } from "./scene";

/** Background and ink of a word. */
export interface Tint {
  readonly background: string;
  readonly color: string;
}

/** Word scores, which set the scale; special tokens do not. `scale`: the server's ends of the scale. */
export interface ScoredWords {
  readonly word_scores: readonly number[];
  readonly signed: boolean;
  readonly scale?: ServerScale | null | undefined; // absent in older files
}

/** Ends and legend of a colour scale. */
export interface Scale {
  readonly signed: boolean;
  readonly low: number;
  readonly high: number;
  readonly legend?: string; // value of full colour, with its unit
  readonly note?: string | null; // note that all scores are negligible
}

/** Build the colour scale of a method's scores. */
export function buildScale({ word_scores, signed, scale }: ScoredWords): Scale {
  if (scale) {
    const { start, full: high, legend, note } = scale;
    return { signed, low: signed ? -high : start, high, legend, note };
  }
  const high = word_scores.reduce((most, score) => Math.max(most, Math.abs(score)), 0);
  if (signed) return { signed, low: -high, high };
  // Starting from 0, methods that score every word highly would tint all words alike.
  return { signed, low: word_scores.reduce((least, score) => Math.min(least, score), high), high };
}

/** Compute the shade of a score: -1 to 1 if signed, else 0 to 1. */
export function computeShade(score: number, { signed, low, high }: Scale): number {
  if (signed) return high > 0 ? Math.max(-1, Math.min(1, score / high)) : 0;
  // Scores equal up to rounding: their differences are noise.
  return high - low > 1e-9 * high ? Math.max(0, Math.min(1, (score - low) / (high - low))) : 0;
}

/** Return the colours of a shade; the ink has 4.5:1. */
export function tintShade(shade: number, signed: boolean, theme: Theme): Tint {
  // The root keeps small scores visible.
  const background = signed
    ? theme.signed(Math.sign(shade) * 0.85 * Math.abs(shade) ** 0.7)
    : theme.neutral(shade);
  return {
    background,
    color: computeContrast(background, theme.ink) >= 4.5 ? theme.ink : chooseInk(background),
  };
}
