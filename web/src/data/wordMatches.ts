/** A text cut where a word stands in it, whatever its case. */

export interface Part {
  readonly text: string;
  readonly is: boolean;
}

export function marked(text: string, word: string): readonly Part[] {
  if (word === "") return [{ text, is: false }];
  const escaped = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  // Only where no letter or digit goes on: "art" does not stand in "party".
  const cut = new RegExp(`(?<![\\p{L}\\p{N}])(${escaped})(?![\\p{L}\\p{N}])`, "giu");
  return text
    .split(cut)
    .map((part, at) => ({ text: part, is: at % 2 === 1 }))
    .filter((part) => part.text !== "");
}
