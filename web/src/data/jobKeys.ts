/** Names of the long work on a data set: everything that its outcome depends on. */

import type { DataSet, Session } from "../api/types";

type Known = Pick<DataSet, "id" | "text" | "pair" | "label">;

/** Another column is another data set, and a server that was started anew may have another file of that name. */
export function jobKey(
  kind: string,
  session: Pick<Session, "started">,
  set: Known,
  ...rest: unknown[]
): string {
  return JSON.stringify([kind, session.started, set.id, set.text, set.pair, set.label, ...rest]);
}

export function predictKey(
  session: Pick<Session, "started">,
  set: Known,
  model: string,
  limit: number,
): string {
  return jobKey("predict", session, set, model, limit);
}
