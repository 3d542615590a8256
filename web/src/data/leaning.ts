/** The words of each class, in an order and on a scale that let them be held against each other. */

import type { Leaning } from "../api/types";

export type LeaningWord = Leaning["classes"][number]["words"][number];

/** Words with an interval first, as strong as they come; those of too few texts for one after them. */
export function shownWords(words: readonly LeaningWord[], most: number): readonly LeaningWord[] {
  const known = (word: LeaningWord): boolean => word.score.low !== null;
  return [...words.filter(known), ...words.filter((word) => !known(word))].slice(0, most);
}

export interface Ends {
  readonly least: number;
  readonly most: number;
}

/** One scale for all classes: a bar twice as long is twice as much, whichever picture it stands in. */
export function sharedEnds(classes: readonly (readonly LeaningWord[])[]): Ends {
  const values = classes
    .flat()
    .flatMap(({ score: { mean, low, high } }) => [mean, low, high])
    .filter((value) => value !== null);
  return { least: Math.min(0, ...values), most: Math.max(0, ...values) };
}
