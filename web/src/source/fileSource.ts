/** What a file carries with it: answers without a server, and a command for what only a model can answer. */

import type { Compared, Explanations, Flow, Heads, ModelEntry, Session, Statistic } from "../api/types";
import type { components } from "../api/schema.gen";
import { narrowed } from "./narrow";
import { type CarriedFlow, type CarriedInput, type Payload, unpacked } from "./payload";
import { type Reach, type Source, SourceError, type Tensor } from "./source";

type S = components["schemas"];

/** Answers about one of the inputs that a file carries. */
export function fileSource(payload: Payload, entry: CarriedInput): Source {
  /** Answers if it is this input that is asked about. */
  const about = async <A extends { input: S["Input"] }, T>(asked: A, answer: () => T): Promise<T> => {
    check(entry, asked.input);
    return answer();
  };
  const { model } = entry.explanations;
  return {
    kind: "file",
    reach: reachOf(entry),
    session: async () => sessionOf(payload),
    explain: (asked) => about(asked, () => explained(entry, asked)),
    flow: (asked) => about(asked, () => flowOf(payload, entry, asked)),
    heads: (asked) => about(asked, () => headsOf(entry, asked)),
    tensors: (asked) => about(asked, () => tensorsOf(payload, entry, asked)),
    compare: async (asked) => comparedOf(payload, asked),
    trust: async ({ methods }) => {
      const named = methods.map((name) => ` --method ${name}`).join("");
      throw refusal(
        "A file cannot test an explanation: that takes the model.",
        `whence trust "…" --model ${model.name}${named}`,
      );
    },
    generate: async () => {
      throw refusal("A file cannot go on writing: that takes the model.", app(entry));
    },
    verify: async () => {
      throw refusal("A file cannot knock edges out: that takes the model.", app(entry));
    },
  };
}

function refusal(message: string, command: string): SourceError {
  return new SourceError({
    code: "not-in-file",
    message,
    hint: `This can: ${command}`,
    see: "docs/reference/notebook.md",
  });
}

function app(entry: CarriedInput): string {
  return `whence app --model ${entry.explanations.model.name}`;
}

/** What stands for a text that came as numbers only. */
export function textOf({ input, words, picture }: Explanations): string {
  return picture ? "" : (input.text ?? words.map((word) => word.text).join(" "));
}

/** What stands for the picture that a file carries. */
export function pictureOf({ picture }: Explanations): string | null {
  return picture ? (picture.name ?? "picture") : null;
}

/** A target as it is asked for: `positive`, or `positive:negative`. */
export function targetOf({ target }: Explanations): string {
  return target.against ? `${target.label}:${target.against.label}` : target.label;
}

function check(entry: CarriedInput, asked: S["Input"]): void {
  const { explanations } = entry;
  const { model, input, prediction, target } = explanations;
  const sameText =
    asked.text === textOf(explanations) &&
    (asked.pair ?? null) === input.pair &&
    (asked.picture ?? null) === pictureOf(explanations);
  if (!sameText || (asked.model !== "" && asked.model !== model.name)) {
    throw refusal("This file carries other inputs than this one: a new one takes the model.", app(entry));
  }
  const own = targetOf(explanations);
  if ((asked.target ?? prediction.label) !== own || asked.of !== target.of) {
    throw refusal(
      `This file explains the ${target.of} of ${own}; another target takes the model.`,
      app(entry),
    );
  }
}

function reachOf(entry: CarriedInput): Reach {
  const inSight = entry.without === null;
  return {
    methods: entry.explanations.explanations.map((one) => one.method),
    weights: [...new Set(entry.flows.map((flow) => flow.weight))],
    statistics: entry.heads.map((heads) => heads.statistic as Statistic),
    thumbnails: entry.thumbnails !== null,
    matrices: entry.maps !== null,
    input: false,
    target: false,
    trace: inSight,
    trust: false,
    verify: false,
    why: `This file carries what was computed when it was written. For more: ${app(entry)}`,
  };
}

function explained({ explanations }: CarriedInput, asked: S["ExplainAsked"]): Explanations {
  const known = new Map(explanations.explanations.map((one) => [one.method, one]));
  const failed = asked.methods
    .filter((name) => !known.has(name))
    .map((method) => ({
      method,
      message: `This file does not carry ${method}: that takes the model (whence app --model ${explanations.model.name}).`,
    }));
  const chosen = asked.methods.flatMap((name) => known.get(name) ?? []);
  return { ...explanations, explanations: chosen, failed: [...explanations.failed, ...failed] };
}

function flowOf(payload: Payload, entry: CarriedInput, asked: S["FlowAsked"]): Flow {
  if (entry.without !== null) throw refusal(entry.without, app(entry));
  const { weight, direction, token } = asked;
  const why = entry.refused[weight];
  if (why !== undefined)
    throw new SourceError({
      code: "not-capturable",
      message: why,
      hint: "Choose another edge weight.",
      see: "docs/reference/architectures.md",
    });
  if ((asked.classic ?? null) !== null || (asked.residual ?? null) !== null) {
    throw refusal("A file carries no other thresholds or residual shares than the usual.", app(entry));
  }
  const alike = candidates(entry, direction, token ?? null).filter((flow) => flow.weight === weight);
  const carried = alike.find((flow) => flow.specials === asked.query.specials) ?? alike[0];
  if (carried === undefined) throw refusal(missing(payload, entry, direction), app(entry));
  return narrowed({ ...carried, tokens: entry.explanations.tokens }, asked.query, asked.most);
}

function candidates(
  entry: CarriedInput,
  direction: Flow["direction"],
  token: number | null,
): readonly CarriedFlow[] {
  if (direction === "back" && token === null) return entry.flows;
  return direction === "through" ? entry.words.filter((flow) => flow.token === token) : [];
}

function missing(payload: Payload, entry: CarriedInput, direction: Flow["direction"]): string {
  if (direction !== "through") return "This file carries traces back from the decision, not from a token.";
  if (payload.left_out.includes("words"))
    return "Traces through words were left out of this file, for its size.";
  const long = entry.words.length === 0 ? "none for an input of this length" : "those by attention, of words";
  return `Of the traces through a token this file carries ${long}.`;
}

function headsOf(entry: CarriedInput, asked: S["HeadsAsked"]): Heads {
  const carried = entry.heads.find((heads) => heads.statistic === asked.statistic);
  if (carried !== undefined) return carried;
  throw refusal(
    entry.without ??
      entry.refused[asked.statistic] ??
      "A file cannot switch heads off: that takes the model.",
    app(entry),
  );
}

function tensorsOf(payload: Payload, entry: CarriedInput, asked: S["TensorsAsked"]): Map<string, Tensor> {
  return new Map(asked.keys.map((key) => [key, tensorOf(payload, entry, key)]));
}

function tensorOf(payload: Payload, entry: CarriedInput, key: string): Tensor {
  const thumbnails = key === "thumbnails";
  const carried = thumbnails ? entry.thumbnails : entry.maps;
  if (carried === null) {
    const what = thumbnails ? "no thumbnails" : "no maps of single heads";
    const left = payload.left_out.includes(thumbnails ? "thumbnails" : "maps")
      ? ", for its size"
      : " of this input";
    throw refusal(entry.without ?? `This file carries ${what}${left}.`, app(entry));
  }
  if (thumbnails) return { shape: carried.shape, data: Uint8Array.from(unpacked(carried)) };
  const [, layer = -1, head = -1] = key.split(".").map(Number);
  const [layers = 0, heads = 0, rows = 0, columns = 0] = carried.shape;
  if (!(layer >= 0 && layer < layers && head >= 0 && head < heads))
    throw refusal(`This file knows no ${key}.`, app(entry));
  const start = (layer * heads + head) * rows * columns;
  const roots = unpacked(carried).subarray(start, start + rows * columns);
  return { shape: [rows, columns], data: Float32Array.from(roots, (root) => (root / 65535) ** 2) };
}

function comparedOf(payload: Payload, asked: S["CompareAsked"]): Compared {
  const carried = payload.compared?.find(
    ({ a, b, flows }) => a.name === asked.a && b.name === asked.b && flows[0].weight === asked.weight,
  );
  if (carried !== undefined && asked.direction === "back") return carried;
  throw refusal("This file carries no such comparison.", `whence app --compare ${asked.a} ${asked.b}`);
}

function sessionOf(payload: Payload): Session {
  const models = new Map(payload.inputs.map((entry) => [entry.explanations.model.name, modelOf(entry)]));
  return {
    version: String(payload.version),
    started: "file",
    models: [...models.values()],
    compare: null,
    data: [],
    samples: payload.inputs.map(({ explanations }) => ({
      text: textOf(explanations),
      pair: explanations.input.pair,
    })),
    allow_load: false,
    limits: { characters: 50_000, upload: 0, seconds: 0, edges: 5000, generated: 0 },
  };
}

function modelOf({ explanations, flows, without }: CarriedInput): ModelEntry {
  const { model } = explanations;
  const task = typeof model["task"] === "string" ? model["task"] : null;
  return {
    id: model.name,
    state: "ready",
    name: model.name,
    kind: null,
    labels: model.labels,
    task,
    modality: explanations.picture ? "picture" : "text",
    zero_shot: false,
    draws: false,
    samples: [],
    reads_pairs: false,
    pairs: false, // of a model that has one text in this file and two in another input, neither lacks anything
    takes_pairs: explanations.input.pair !== null,
    layers: flows[0]?.layers ?? null,
    heads: flows[0]?.heads ?? null,
    longest: null,
    attention: without,
    error: null,
  };
}
