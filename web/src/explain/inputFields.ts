/** Rules for the form fields of each task: fields and labels, sample texts, missing input, masks, output names. */

import type { Explanations, Input, ModelEntry, Session } from "../api/types";
import type { ViewState } from "../state/state";

/** Input as typed in the form, before it is submitted. */
export type Draft = Pick<
  ViewState,
  "text" | "pair" | "picture" | "at" | "answer" | "rather" | "labels" | "template"
>;

/** Fields of the form; null where the task has no such field. */
export interface Fields {
  readonly text: string | null; // its label; null: no such field
  readonly pair: string | null;
  readonly needsPair: boolean;
  readonly picture: boolean;
  readonly at: string | null;
  readonly answer: boolean;
  readonly labels: string | null;
  readonly needsLabels: boolean;
  readonly template: boolean;
  readonly generate: boolean;
}

const NONE: Fields = {
  text: "Text",
  pair: null,
  needsPair: false,
  picture: false,
  at: null,
  answer: false,
  labels: null,
  needsLabels: false,
  template: false,
  generate: false,
};

/** Return the fields of a model's task; a model that is not loaded counts as a classifier. */
export function findFields(entry: ModelEntry | undefined): Fields {
  const pair = (entry?.takes_pairs ?? true) ? "Second text" : null;
  const needsPair = entry?.pairs ?? false;
  if (entry?.modality === "picture") return { ...NONE, text: null, picture: true };
  switch (entry?.task) {
    case "answer":
      return { ...NONE, text: "Question", pair: "Context", needsPair: true };
    case "tags":
      return { ...NONE, at: "Word or token" };
    case "mask":
      return { ...NONE, pair, at: "Mask" };
    case "next":
    case "sequence":
      return { ...NONE, text: entry.task === "next" ? "Prompt" : "Source", answer: true, generate: true };
    case "similarity":
      return { ...NONE, text: "Text", picture: true, labels: "Texts to choose from" };
    default:
      return entry?.zero_shot
        ? { ...NONE, pair, needsPair, labels: "Labels", template: true }
        : { ...NONE, pair, needsPair };
  }
}

/** Return the entry as a text-only model: comparisons support texts only. */
export function asTextModel(entry: ModelEntry | undefined): ModelEntry | undefined {
  return entry && { ...entry, task: null, modality: "text", zero_shot: false, mask: null };
}

/** Parse labels separated by commas. */
export function parseLabels(text: string): string[] {
  return text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
}

/** Explain which input is missing; null where nothing is. */
export function explainMissing(input: Input, entry: ModelEntry | undefined): string | null {
  const fields = findFields(entry);
  if (fields.picture && (input.picture ?? null) === null)
    return entry?.draws ? "Bring a picture, or draw one." : "Bring a picture: nothing is explained yet.";
  if (entry?.task === "similarity" && !input.labels?.length && input.text.trim() === "")
    return "Which texts is the picture to be held against? Name two or more, or give one text to be explained itself.";
  if (fields.text !== null && input.text.trim() === "" && !fields.picture)
    return `${fields.text}: nothing is there yet.`;
  if (fields.needsPair && !input.pair) return `${fields.pair ?? "Second text"}: nothing is there yet.`;
  return null;
}

/** Find sample texts: the model's own, else those of its task, else the general ones. */
export function findSamples(entry: ModelEntry | undefined, session: Session): Session["samples"] {
  if (findFields(entry).picture) return [];
  if (entry && entry.samples.length > 0) return entry.samples;
  const own = session.samples.filter(({ task }) => task && task === entry?.task);
  const samples = own.length > 0 ? own : session.samples.filter(({ task }) => !task);
  const mask = entry?.mask;
  return mask
    ? samples.map((sample) => ({ ...sample, text: sample.text.replaceAll("[MASK]", mask) }))
    : samples;
}

/** Whether a text is one of the samples. */
export function isSample({ text, pair }: Pick<ViewState, "text" | "pair">, session: Session): boolean {
  const isIn = (samples: Session["samples"]): boolean =>
    samples.some((sample) => sample.text === text && sample.pair === pair);
  return isIn(session.samples) || session.models.some((entry) => isIn(findSamples(entry, session)));
}

/** Count the mask tokens in a text. */
export function countMasks(text: string, entry: ModelEntry | undefined): number {
  return entry?.mask ? text.split(entry.mask).length - 1 : 0;
}

/** List the named outputs: the model's labels, or the candidate labels of this input. */
export function listOutputNames({ prediction, model, rest }: Explanations): readonly string[] {
  const names = Object.keys(prediction.probabilities).filter((name) => name !== rest);
  return names.length > 0 ? names : model.labels;
}
