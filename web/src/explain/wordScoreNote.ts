/** What the score of a word is, where it is not the sum of its pieces' scores. */

import type { Explanations, OneExplanation } from "../api/types";

const SAID: Record<OneExplanation["words_by"], string | null> = {
  sum: null,
  mean: "The score of a word in several pieces is the mean of theirs, not what happens without the word.",
  measured: "The score of a word in several pieces was measured without the whole word; it is not their sum.",
};

export function wordsNote({ words }: Pick<Explanations, "words">, one: OneExplanation): string | null {
  return words.some(({ tokens }) => tokens.length > 1) ? SAID[one.words_by] : null;
}
