/** Captions of the workbench's exported pictures: text, heads, matrix and flow, each with its settings. */

import type { Explanations, Input } from "../api/types";
import type { VisibleFlow } from "../flow/visibleFlow";
import { describeLayerShares } from "../flow/layerShares";
import { type CaptionFields, formatCaption } from "../render/caption";
import { SPECIALS, STATISTICS } from "../state/choices";
import type { ViewState } from "../state/state";
import { formatTargetName } from "./Legend";
import { type QueryContext, listFilters, quoteWord } from "./queryLanguage";

/** Captions of the four pictures of the workbench. */
export interface Captions {
  readonly text: string;
  readonly heads: string;
  readonly matrix: string;
  readonly flow: string;
}

/** Build the captions from the state and the answers. */
export function buildCaptions(
  state: ViewState,
  input: Input,
  explanations: Explanations | null,
  visible: VisibleFlow | null,
  queryContext: QueryContext,
  date: string,
): Captions {
  const { model } = explanations ?? {};
  const target = explanations ? `${formatTargetName(explanations.target)} (${input.of ?? "logit"})` : null;
  const base: CaptionFields = {
    model: model?.name ?? input.model,
    revision: model?.revision ?? null,
    fingerprint: model?.fingerprint ?? null,
    text: explanations?.picture
      ? (explanations.picture.name ?? "a picture")
      : [input.text, ...[input.pair, input.answer].filter(Boolean)].join(" | "),
    date,
  };
  const { statistic, thumbnails } = state;
  const ofClass = !thumbnails && (statistic === "gradient" || statistic === "ablation");
  const what = thumbnails
    ? "attention of every head, pooled"
    : `${STATISTICS[statistic]}, one number per head`;
  return {
    text: formatCaption({
      ...base,
      target: explanations
        ? `${formatTargetName(explanations.target)} (${describeOutput(explanations)})`
        : null,
      method: state.methods.join(", "),
      ...(state.beside.length > 0 ? { what: `and for ${state.beside.join(", ")}` } : {}),
      ...(visible
        ? { what: `underline: what ends there of the flow ${describeTrace(visible, queryContext)}` }
        : {}),
    }),
    heads: formatCaption({ ...base, what, ...(ofClass ? { target } : {}) }),
    matrix: formatCaption(base),
    flow: visible ? buildFlowCaption(base, state, target, visible, queryContext) : formatCaption(base),
  };
}

/** Name the explained output, logit or probability; some methods always measure a probability. */
export function describeOutput({ explanations, target }: Explanations): string {
  const every = explanations.map(({ of }) => of ?? target.of);
  if (new Set(every).size <= 1) return every[0] ?? target.of;
  return explanations.map(({ method }, index) => `${method}: ${every[index] ?? target.of}`).join(", ");
}

function buildFlowCaption(
  base: CaptionFields,
  state: ViewState,
  target: string | null,
  visible: VisibleFlow,
  queryContext: QueryContext,
): string {
  const { flow, covered, coverage, capped } = visible;
  const classic = flow.influence;
  return formatCaption({
    ...base,
    ...(flow.class_free ? {} : { target }),
    weight: flow.weight,
    trace: [
      describeTrace(visible, queryContext),
      ...(classic ? [`classic, threshold ${classic.threshold}, decay ${classic.decay}`] : []),
      `special tokens ${SPECIALS[state.specials]}`,
    ].join(", "),
    filters: listFilters(state, queryContext),
    coverage: capped ? covered : coverage,
    unit: describeLayerShares(visible),
  });
}

function describeTrace({ flow }: VisibleFlow, queryContext: QueryContext): string {
  return formatDirection(flow.direction, flow.token === null ? null : quoteWord(flow.token, queryContext));
}

/** Describe the trace, such as "back from the decision" or "from the decision back to “good”". */
export function formatDirection(direction: ViewState["direction"], word: string | null): string {
  if (word === null) return "back from the decision";
  return direction === "through" ? `from the decision back to ${word}` : `${direction} from ${word}`;
}
