/** From scores to the colours of words. Signed ones begin at 0, in both directions; the others at their smallest. */

import type { StatedScale } from "../api/types";
import { contrast, inkOn } from "./theme";
import type { Theme } from "./scene";

export interface Tint {
  readonly background: string;
  readonly color: string;
}

/** The scores of the words, which set the scale: special tokens do not. The server says where colours are full. */
export interface Scored {
  readonly word_scores: readonly number[];
  readonly signed: boolean;
  readonly scale?: StatedScale | null | undefined; // none: of an older file
}

export interface Scale {
  readonly signed: boolean;
  readonly low: number;
  readonly high: number;
  readonly legend?: string; // where colours are full, with the unit
  readonly note?: string | null; // that no score is worth the name
}

export function scaleOf({ word_scores, signed, scale }: Scored): Scale {
  if (scale) {
    const { start, full: high, legend, note } = scale;
    return { signed, low: signed ? -high : start, high, legend, note };
  }
  const high = word_scores.reduce((most, score) => Math.max(most, Math.abs(score)), 0);
  if (signed) return { signed, low: -high, high };
  // From 0, methods that give every word its part would paint them all alike.
  return { signed, low: word_scores.reduce((least, score) => Math.min(least, score), high), high };
}

/** A score as a shade: -1 to 1 where it has a sign, 0 to 1 where it has none. */
export function shadeOf(score: number, { signed, low, high }: Scale): number {
  if (signed) return high > 0 ? Math.max(-1, Math.min(1, score / high)) : 0;
  // Where all scores are the same to rounding, what is left of them is noise.
  return high - low > 1e-9 * high ? Math.max(0, Math.min(1, (score - low) / (high - low))) : 0;
}

/** A shade as colours; the ink has 4.5:1 on it. */
export function tint(shade: number, signed: boolean, theme: Theme): Tint {
  // The root keeps small scores visible.
  const background = signed
    ? theme.signed(Math.sign(shade) * 0.85 * Math.abs(shade) ** 0.7)
    : theme.neutral(shade);
  return { background, color: contrast(background, theme.ink) >= 4.5 ? theme.ink : inkOn(background) };
}
