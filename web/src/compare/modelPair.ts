/** Model pair of a comparison: chosen from link, `whence app --compare` or session; short names for the page. */

import type { InputComparisonData, Session } from "../api/types";
import { shortenModelName } from "../shell/modelNames";
import type { ViewState } from "../state/state";

/** Ids of model A and model B. */
export interface ModelPair {
  readonly a: string;
  readonly b: string;
}

/** Choose the two models from the state and the session. */
export function resolveModelPair(
  state: Pick<ViewState, "model" | "other">,
  session: Pick<Session, "models" | "compare">,
): ModelPair {
  const [first = "", second = first] = session.compare ?? session.models.map(({ id }) => id);
  // From the tuned model's explanation, compare it with its base, not with itself.
  if (state.model === second && state.other === "") return { a: first, b: second };
  return { a: state.model || first, b: state.other || second };
}

/** Name both models distinctly, also where a model is compared with itself. */
export function nameModelPair(
  { a, b }: ModelPair,
  session: Pick<Session, "models">,
): readonly [string, string] {
  const [one, two] = [shortenModelName(a, session), shortenModelName(b, session)];
  return a === b ? [`${one} (A)`, `${two} (B)`] : [one, two];
}

/** Replace the model paths in a server's sentence by the short names of the page. */
export function shortenModelNames(
  sentence: string,
  { a, b }: { readonly a: { readonly name: string }; readonly b: { readonly name: string } },
  names: readonly [string, string],
): string {
  // Longer path first: one may be a prefix of the other.
  const pairs = [[a.name, names[0]] as const, [b.name, names[1]] as const];
  return pairs
    .filter(([name]) => a.name !== b.name && /[/\\]/.test(name))
    .sort(([x], [y]) => y.length - x.length)
    .reduce((words, [name, short]) => words.replaceAll(`'${name}'`, short).replaceAll(name, short), sentence);
}

/** Join text and second text of an input in one line. */
export function joinTexts({ text, pair }: InputComparisonData["input"]): string | null {
  return pair === null ? text : `${text ?? ""} / ${pair}`;
}
