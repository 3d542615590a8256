/** Words or tokens of a text strip as features: list, scores, ranks, flow shares, and token to trace. */

import type { Explanations, Flow, MethodExplanation } from "../api/types";
import { showInvisible } from "../render/text";

/** One word or token, with its tokens. */
export interface TextFeature {
  readonly text: string;
  readonly before: string; // text between it and the previous feature
  readonly segment: number;
  readonly tokens: readonly number[];
  readonly special: boolean;
}

/** Input with its words and tokens, as several answers carry it. */
export type TokenizedText = Pick<Explanations, "words" | "tokens" | "input">;

/** List the words or the tokens of a text. */
export function listFeatures(
  { words, tokens, input }: TokenizedText,
  asWords: boolean,
): readonly TextFeature[] {
  if (!asWords) {
    return tokens.map(({ text, segment, special }, index) => ({
      text: showInvisible(text),
      before: index > 0 ? " " : "",
      segment,
      tokens: [index],
      special,
    }));
  }
  // Offsets count code points; JavaScript strings index UTF-16 units.
  const texts = [input.text, input.pair].map((text) => (text === null ? null : [...text]));
  return words.map((word, index) => {
    const last = words[index - 1];
    return {
      text: showInvisible(word.text),
      before:
        last?.segment === word.segment ? sliceBetween(last.end, word.start, texts[word.segment] ?? null) : "",
      segment: word.segment,
      tokens: word.tokens,
      special: false,
    };
  });
}

function sliceBetween(
  end: number | null,
  start: number | null,
  characters: readonly string[] | null,
): string {
  return end === null || start === null || characters === null ? " " : characters.slice(end, start).join("");
}

/** Select word scores or token scores. */
export function selectScores(one: MethodExplanation, asWords: boolean): readonly number[] {
  return asWords ? one.word_scores : one.scores;
}

/** Sum the traced flow that ends on each feature. */
export function sumShares(flow: Flow | null, features: readonly TextFeature[]): readonly number[] {
  return features.map(({ tokens }) => tokens.reduce((sum, token) => sum + (flow?.shares[token] ?? 0), 0));
}

/** Find the token that represents a word in a trace: the one with the largest share. */
export function findTracedToken(feature: Pick<TextFeature, "tokens">, flow: Flow | null): number {
  const [first = 0] = feature.tokens;
  return feature.tokens.reduce(
    (best, token) => ((flow?.shares[token] ?? 0) > (flow?.shares[best] ?? 0) ? token : best),
    first,
  );
}

/** Rank scores by absolute value, from 1; equal ones share the better rank. */
export function rankScores(scores: readonly number[]): readonly number[] {
  const sizes = scores.map(Math.abs).sort((a, b) => b - a);
  return scores.map((score) => sizes.indexOf(Math.abs(score)) + 1);
}
