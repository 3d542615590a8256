/** Order of each class's words for bar charts of their scores, and one score range for all classes. */

import type { ClassWordScores } from "../api/types";

export type ClassWord = ClassWordScores["classes"][number]["words"][number];

/** Put words with an interval first, by strength, then words of too few texts for an interval. */
export function rankWords(words: readonly ClassWord[], most: number): readonly ClassWord[] {
  const hasInterval = (word: ClassWord): boolean => word.score.low !== null;
  return [...words.filter(hasInterval), ...words.filter((word) => !hasInterval(word))].slice(0, most);
}

/** Least and largest score of a chart. */
export interface ScoreRange {
  readonly least: number;
  readonly most: number;
}

/** Find one range for all classes, so that bars can be compared across charts. */
export function findScoreRange(classes: readonly (readonly ClassWord[])[]): ScoreRange {
  const values = classes
    .flat()
    .flatMap(({ score: { mean, low, high } }) => [mean, low, high])
    .filter((value) => value !== null);
  return { least: Math.min(0, ...values), most: Math.max(0, ...values) };
}
