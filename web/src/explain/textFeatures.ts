/** What the text strip shows one by one: words, or tokens. */

import type { Explanations, Flow, OneExplanation } from "../api/types";
import { visible } from "../render/text";

export interface Unit {
  readonly text: string;
  readonly before: string; // what stands between it and the unit before
  readonly segment: number;
  readonly tokens: readonly number[];
  readonly special: boolean;
}

/** A text with its words, whoever speaks of it. */
export type Spoken = Pick<Explanations, "words" | "tokens" | "input">;

export function unitsOf({ words, tokens, input }: Spoken, asWords: boolean): readonly Unit[] {
  if (!asWords) {
    return tokens.map(({ text, segment, special }, index) => ({
      text: visible(text),
      before: index > 0 ? " " : "",
      segment,
      tokens: [index],
      special,
    }));
  }
  // Offsets count characters; a string's own places count halves of surrogate pairs.
  const texts = [input.text, input.pair].map((text) => (text === null ? null : [...text]));
  return words.map((word, index) => {
    const last = words[index - 1];
    return {
      text: visible(word.text),
      before:
        last?.segment === word.segment ? between(last.end, word.start, texts[word.segment] ?? null) : "",
      segment: word.segment,
      tokens: word.tokens,
      special: false,
    };
  });
}

function between(end: number | null, start: number | null, characters: readonly string[] | null): string {
  return end === null || start === null || characters === null ? " " : characters.slice(end, start).join("");
}

export function scoresOf(one: OneExplanation, asWords: boolean): readonly number[] {
  return asWords ? one.word_scores : one.scores;
}

/** What of the traced flow ends on each unit. */
export function sharesOf(flow: Flow | null, units: readonly Unit[]): readonly number[] {
  return units.map(({ tokens }) => tokens.reduce((sum, token) => sum + (flow?.shares[token] ?? 0), 0));
}

/** The token by which a word is traced: the one on which most of the flow ends. */
export function tracedBy(unit: Pick<Unit, "tokens">, flow: Flow | null): number {
  const [first = 0] = unit.tokens;
  return unit.tokens.reduce(
    (best, token) => ((flow?.shares[token] ?? 0) > (flow?.shares[best] ?? 0) ? token : best),
    first,
  );
}

/** Rank of each score by size, from 1; equal ones share the better rank. */
export function ranksOf(scores: readonly number[]): readonly number[] {
  const sizes = scores.map(Math.abs).sort((a, b) => b - a);
  return scores.map((score) => sizes.indexOf(Math.abs(score)) + 1);
}
