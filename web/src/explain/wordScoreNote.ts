/** Note on word scores that are not the sum of their tokens' scores. */

import type { Explanations, MethodExplanation } from "../api/types";

const NOTES: Record<MethodExplanation["words_by"], string | null> = {
  sum: null,
  mean: "The score of a word in several pieces is the mean of theirs, not what happens without the word.",
  measured: "The score of a word in several pieces was measured without the whole word; it is not their sum.",
};

/** Describe how word scores were computed; null where they are sums. */
export function describeWordScores(
  { words }: Pick<Explanations, "words">,
  one: MethodExplanation,
): string | null {
  return words.some(({ tokens }) => tokens.length > 1) ? NOTES[one.words_by] : null;
}
