/** What a model of each task is asked with: which fields the form has, and what they are called. */

import type { Explanations, Input, ModelEntry, Session } from "../api/types";
import type { ViewState } from "../state/state";

/** What a person writes in the form, before it is asked. */
export type Draft = Pick<
  ViewState,
  "text" | "pair" | "picture" | "at" | "answer" | "rather" | "labels" | "template"
>;

export interface Fields {
  readonly text: string | null; // its name; null: there is none
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

/** Of a model that is not loaded nothing is known: then it is asked as a classifier is. */
export function fieldsOf(entry: ModelEntry | undefined): Fields {
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

/** The model as a reader of texts alone: two of them are compared on a text, whatever else each can do. */
export function plainly(entry: ModelEntry | undefined): ModelEntry | undefined {
  return entry && { ...entry, task: null, modality: "text", zero_shot: false, mask: null };
}

/** The labels that were typed, with commas between them. */
export function labelsOf(written: string): string[] {
  return written
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
}

/** Why there is nothing to ask yet; null where there is. */
export function missing(input: Input, entry: ModelEntry | undefined): string | null {
  const fields = fieldsOf(entry);
  if (fields.picture && (input.picture ?? null) === null)
    return entry?.draws ? "Bring a picture, or draw one." : "Bring a picture: nothing is explained yet.";
  if (entry?.task === "similarity" && !input.labels?.length && input.text.trim() === "")
    return "Which texts is the picture to be held against? Name two or more, or give one text to be explained itself.";
  if (fields.text !== null && input.text.trim() === "" && !fields.picture)
    return `${fields.text}: nothing is there yet.`;
  if (fields.needsPair && !input.pair) return `${fields.pair ?? "Second text"}: nothing is there yet.`;
  return null;
}

/** The texts to begin with: the model's own, or those for its task, and where there are none, those for no task alone. */
export function samplesOf(entry: ModelEntry | undefined, session: Session): Session["samples"] {
  if (fieldsOf(entry).picture) return [];
  if (entry && entry.samples.length > 0) return entry.samples;
  const own = session.samples.filter(({ task }) => task && task === entry?.task);
  const found = own.length > 0 ? own : session.samples.filter(({ task }) => !task);
  const mask = entry?.mask;
  return mask ? found.map((sample) => ({ ...sample, text: sample.text.replaceAll("[MASK]", mask) })) : found;
}

/** Whether a text is one that a model was opened with, and nobody's own. */
export function isSample({ text, pair }: Pick<ViewState, "text" | "pair">, session: Session): boolean {
  const isIn = (samples: Session["samples"]): boolean =>
    samples.some((sample) => sample.text === text && sample.pair === pair);
  return isIn(session.samples) || session.models.some((entry) => isIn(samplesOf(entry, session)));
}

/** How many masks stand in a text. */
export function masksOf(text: string, entry: ModelEntry | undefined): number {
  return entry?.mask ? text.split(entry.mask).length - 1 : 0;
}

/** The outputs that have a name: the model's labels, or those that this input has of its own. */
export function namedOf({ prediction, model, rest }: Explanations): readonly string[] {
  const names = Object.keys(prediction.probabilities).filter((name) => name !== rest);
  return names.length > 0 ? names : model.labels;
}
