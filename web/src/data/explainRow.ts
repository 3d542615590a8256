/** From a row to the workbench: its text, and nothing of what was picked out in another one. */

import { FORGET } from "../explain/asked";
import type { ViewState } from "../state/state";
import { readRows, writeRows } from "./rowlink";
import type { Row } from "./rows";

/** `model` is the id that the page asks with; `rows` what the link says of the table, to find the way back. */
export function explainRow(
  row: Pick<Row, "number" | "text" | "pair">,
  model: string,
  data: string,
  rows: string,
): Partial<ViewState> {
  const at = writeRows({ ...readRows(rows), at: row.number });
  return { ...FORGET, page: "explain", model, data, rows: at, text: row.text, pair: row.pair };
}
