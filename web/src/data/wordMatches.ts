/** Text split into matches of a whole word, regardless of case, and the text between, for marking. */

/** Part of a text, with whether it is a match. */
export interface TextPart {
  readonly text: string;
  readonly isMatch: boolean;
}

/** Split a text into matches of a word and the text between them. */
export function splitAtWord(text: string, word: string): readonly TextPart[] {
  if (word === "") return [{ text, isMatch: false }];
  const escaped = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  // Whole words only: "art" does not match in "party".
  const cut = new RegExp(`(?<![\\p{L}\\p{N}])(${escaped})(?![\\p{L}\\p{N}])`, "giu");
  return text
    .split(cut)
    .map((part, at) => ({ text: part, isMatch: at % 2 === 1 }))
    .filter((part) => part.text !== "");
}
