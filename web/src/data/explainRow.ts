/** State change from a row of a data set to the workbench; selections of the previous input are cleared. */

import { RESET_SELECTION } from "../explain/inputRequest";
import type { ViewState } from "../state/state";
import { parseRowQuery, formatRowQuery } from "./rowQuery";
import type { Row } from "./rows";

/** Build the state change. `model` is the model's id; `rows` is the table's query, for the way back. */
export function explainRow(
  row: Pick<Row, "number" | "text" | "pair">,
  model: string,
  data: string,
  rows: string,
): Partial<ViewState> {
  const at = formatRowQuery({ ...parseRowQuery(rows), at: row.number });
  return { ...RESET_SELECTION, page: "explain", model, data, rows: at, text: row.text, pair: row.pair };
}
