/** What the files of the workbench say under their pictures: what is shown there, and nothing that has no part in it. */

import type { Explanations, Input } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import { unitInWords } from "../flow/unit";
import { type Facts, caption } from "../render/caption";
import { SPECIALS, STATISTICS } from "../state/choices";
import type { ViewState } from "../state/state";
import { nameOf } from "./Legend";
import { type Ground, filtersOf, wordAt } from "./query";

export interface Captions {
  readonly text: string;
  readonly heads: string;
  readonly matrix: string;
  readonly flow: string;
}

export function captionsOf(
  state: ViewState,
  input: Input,
  explanations: Explanations | null,
  shown: ShownFlow | null,
  ground: Ground,
  date: string,
): Captions {
  const { model } = explanations ?? {};
  const target = explanations ? `${nameOf(explanations.target)} (${input.of ?? "logit"})` : null;
  const base: Facts = {
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
    text: caption({
      ...base,
      target: explanations ? `${nameOf(explanations.target)} (${ofEach(explanations)})` : null,
      method: state.methods.join(", "),
      ...(state.beside.length > 0 ? { what: `and for ${state.beside.join(", ")}` } : {}),
      ...(shown ? { what: `underline: what ends there of the flow ${traced(shown, ground)}` } : {}),
    }),
    heads: caption({ ...base, what, ...(ofClass ? { target } : {}) }),
    matrix: caption(base),
    flow: shown ? flowCaption(base, state, target, shown, ground) : caption(base),
  };
}

/** What is explained, the logit or the probability: some methods measure a probability whatever was asked for. */
export function ofEach({ explanations, target }: Explanations): string {
  const every = explanations.map(({ of }) => of ?? target.of);
  if (new Set(every).size <= 1) return every[0] ?? target.of;
  return explanations.map(({ method }, index) => `${method}: ${every[index] ?? target.of}`).join(", ");
}

function flowCaption(
  base: Facts,
  state: ViewState,
  target: string | null,
  shown: ShownFlow,
  ground: Ground,
): string {
  const { flow, covered, coverage, capped } = shown;
  const classic = flow.influence;
  return caption({
    ...base,
    ...(flow.class_free ? {} : { target }),
    weight: flow.weight,
    way: [
      traced(shown, ground),
      ...(classic ? [`classic, threshold ${classic.threshold}, decay ${classic.decay}`] : []),
      `special tokens ${SPECIALS[state.specials]}`,
    ].join(", "),
    filters: filtersOf(state, ground),
    coverage: capped ? covered : coverage,
    unit: unitInWords(shown),
  });
}

function traced({ flow }: ShownFlow, ground: Ground): string {
  return wayOf(flow.direction, flow.token === null ? null : wordAt(flow.token, ground));
}

/** Such as "back from the decision", "from the decision back to “good”". */
export function wayOf(direction: ViewState["direction"], word: string | null): string {
  if (word === null) return "back from the decision";
  return direction === "through" ? `from the decision back to ${word}` : `${direction} from ${word}`;
}
