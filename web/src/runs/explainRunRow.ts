/** State change from a row of a run to the workbench; earlier selections are cleared. */

import type { RunExample } from "../api/types";
import { RESET_SELECTION, RESET_FIELDS } from "../explain/inputRequest";
import type { ViewState } from "../state/state";

/** Build the state change: text, method and target of the row. */
export function explainRunRow(
  one: Pick<RunExample, "input" | "method" | "target" | "predicted">,
  model: string,
): Partial<ViewState> {
  return {
    ...RESET_SELECTION,
    ...RESET_FIELDS,
    page: "explain",
    model,
    text: one.input.text ?? "",
    pair: one.input.pair,
    methods: [one.method],
    target: one.target === one.predicted ? null : one.target,
  };
}
