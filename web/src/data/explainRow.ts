/** From a row to the workbench: its text, and nothing of what was picked out in another one. */

import { FORGET } from "../explain/asked";
import type { ViewState } from "../state/state";
import type { Row } from "./rows";

export function explainRow(row: Pick<Row, "text" | "pair">, model: string): Partial<ViewState> {
  return { ...FORGET, page: "explain", model, text: row.text, pair: row.pair };
}
