/** Cache keys of jobs over a data set: everything that an outcome depends on. */

import type { DataSet, Session } from "../api/types";

type DataSetIdentity = Pick<DataSet, "id" | "text" | "pair" | "label">;

/** Build a key; it has the columns and the server's start, since either may change the data behind a name. */
export function buildJobKey(
  kind: string,
  session: Pick<Session, "started">,
  set: DataSetIdentity,
  ...rest: unknown[]
): string {
  return JSON.stringify([kind, session.started, set.id, set.text, set.pair, set.label, ...rest]);
}

/** Build the key of a prediction job. */
export function buildPredictKey(
  session: Pick<Session, "started">,
  set: DataSetIdentity,
  model: string,
  limit: number,
): string {
  return buildJobKey("predict", session, set, model, limit);
}
