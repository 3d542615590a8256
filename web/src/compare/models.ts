/** Which two models are compared: those of the link, else those the server was started with, else its first two. */

import type { Session } from "../api/types";
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
