/** From a row of a run to the workbench: its text, its method, its target, and nothing of what was asked before. */

import type { RunExample } from "../api/types";
import { FORGET, FORGET_FIELDS } from "../explain/asked";
import type { ViewState } from "../state/state";

export function benchOf(
  one: Pick<RunExample, "input" | "method" | "target" | "predicted">,
  model: string,
): Partial<ViewState> {
  return {
    ...FORGET,
    ...FORGET_FIELDS,
    page: "explain",
    model,
    text: one.input.text ?? "",
    pair: one.input.pair,
    methods: [one.method],
    target: one.target === one.predicted ? null : one.target,
  };
}
