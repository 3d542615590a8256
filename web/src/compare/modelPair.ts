/** Which two models are compared: those of the link, else those the server was started with, else its first two. */

import type { Compared, Session } from "../api/types";
import { shortName } from "../shell/names";
import type { ViewState } from "../state/state";

export interface Pair {
  readonly a: string;
  readonly b: string;
}

export function modelsOf(
  state: Pick<ViewState, "model" | "other">,
  session: Pick<Session, "models" | "compare">,
): Pair {
  const [first = "", second = first] = session.compare ?? session.models.map(({ id }) => id);
  // Who comes from the tuned model's explanation wants it held against its base, not against itself.
  if (state.model === second && state.other === "") return { a: first, b: second };
  return { a: state.model || first, b: state.other || second };
}

/** Two names that can be told apart, also where a model is compared with itself. */
export function namesFor({ a, b }: Pair, session: Pick<Session, "models">): readonly [string, string] {
  const [one, two] = [shortName(a, session), shortName(b, session)];
  return a === b ? [`${one} (A)`, `${two} (B)`] : [one, two];
}

/** A sentence of the server's with the short names of the page: it knows the models by their paths. */
export function shortened(
  sentence: string,
  { a, b }: { readonly a: { readonly name: string }; readonly b: { readonly name: string } },
  names: readonly [string, string],
): string {
  // The longer path first: one may begin with the other.
  const pairs = [[a.name, names[0]] as const, [b.name, names[1]] as const];
  return pairs
    .filter(([name]) => a.name !== b.name && /[/\\]/.test(name))
    .sort(([x], [y]) => y.length - x.length)
    .reduce((words, [name, short]) => words.replaceAll(`'${name}'`, short).replaceAll(name, short), sentence);
}

/** The input in one line. */
export function bothTexts({ text, pair }: Compared["input"]): string | null {
  return pair === null ? text : `${text ?? ""} / ${pair}`;
}
