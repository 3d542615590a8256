/** Hook for the query of a data set's rows, kept in the link. */

import type { HistoryMode } from "../state/store";
import { usePage } from "../shell/pageContext";
import { type RowQuery, parseRowQuery, formatRowQuery } from "./rowQuery";

/** Return the query and a function that changes parts of it. */
export function useRowQuery(): readonly [RowQuery, (change: Partial<RowQuery>, mode?: HistoryMode) => void] {
  const { state, update } = usePage();
  const query = parseRowQuery(state.rows);
  return [
    query,
    (change, mode = "replace") => update({ rows: formatRowQuery({ ...query, ...change }) }, mode),
  ];
}
