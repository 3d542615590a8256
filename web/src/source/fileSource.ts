/** File source: answers from the data of an offline file; for anything else, the command that computes it. */

import type {
  InputComparisonData,
  Explanations,
  Flow,
  Heads,
  ModelEntry,
  Session,
  Statistic,
} from "../api/types";
import type { components } from "../api/schema.gen";
import { filterFlow } from "./edgeFilter";
import { type FileFlow, type FileInput, type FileData, unpackArray } from "./fileData";
import { type Reach, type Source, SourceError, type Tensor } from "./source";

type S = components["schemas"];

/** Create a source for one input of a file. */
export function createFileSource(fileData: FileData, entry: FileInput): Source {
  /** Answers if it is this input that is asked about. */
  const about = async <A extends { input: S["Input"] }, T>(request: A, answer: () => T): Promise<T> => {
    checkInput(entry, request.input);
    return answer();
  };
  const { model } = entry.explanations;
  return {
    kind: "file",
    reach: buildReach(entry),
    session: async () => buildSession(fileData),
    explain: (request) => about(request, () => selectExplanations(entry, request)),
    flow: (request) => about(request, () => selectFlow(fileData, entry, request)),
    heads: (request) => about(request, () => selectHeads(entry, request)),
    tensors: (request) => about(request, () => selectTensors(fileData, entry, request)),
    compare: async (request) => selectComparison(fileData, request),
    trust: async ({ methods }) => {
      const named = methods.map((name) => ` --method ${name}`).join("");
      throw buildRefusal(
        "A file cannot test an explanation: that takes the model.",
        `whence trust "…" --model ${model.name}${named}`,
      );
    },
    generate: async () => {
      throw buildRefusal("A file cannot go on writing: that takes the model.", formatAppCommand(entry));
    },
    verify: async () => {
      throw buildRefusal("A file cannot knock edges out: that takes the model.", formatAppCommand(entry));
    },
  };
}

function buildRefusal(message: string, command: string): SourceError {
  return new SourceError({
    code: "not-in-file",
    message,
    hint: `This can: ${command}`,
    see: "docs/reference/notebook.md",
  });
}

function formatAppCommand(entry: FileInput): string {
  return `whence app --model ${entry.explanations.model.name}`;
}

/** Return the text of an input; its joined words where it was given as token ids, "" for a picture. */
export function getText({ input, words, picture }: Explanations): string {
  return picture ? "" : (input.text ?? words.map((word) => word.text).join(" "));
}

/** Return the name of the file's picture; null for texts. */
export function getPicture({ picture }: Explanations): string | null {
  return picture ? (picture.name ?? "picture") : null;
}

/** Format a target for a request: `positive`, or `positive:negative`. */
export function formatTarget({ target }: Explanations): string {
  return target.against ? `${target.label}:${target.against.label}` : target.label;
}

function checkInput(entry: FileInput, request: S["Input"]): void {
  const { explanations } = entry;
  const { model, input, prediction, target } = explanations;
  const sameText =
    request.text === getText(explanations) &&
    (request.pair ?? null) === input.pair &&
    (request.picture ?? null) === getPicture(explanations);
  if (!sameText || (request.model !== "" && request.model !== model.name)) {
    throw buildRefusal(
      "This file carries other inputs than this one: a new one takes the model.",
      formatAppCommand(entry),
    );
  }
  const own = formatTarget(explanations);
  if ((request.target ?? prediction.label) !== own || request.of !== target.of) {
    throw buildRefusal(
      `This file explains the ${target.of} of ${own}; another target takes the model.`,
      formatAppCommand(entry),
    );
  }
}

function buildReach(entry: FileInput): Reach {
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
    why: `This file carries what was computed when it was written. For more: ${formatAppCommand(entry)}`,
  };
}

function selectExplanations({ explanations }: FileInput, request: S["ExplainRequest"]): Explanations {
  const known = new Map(explanations.explanations.map((one) => [one.method, one]));
  const failed = request.methods
    .filter((name) => !known.has(name))
    .map((method) => ({
      method,
      message: `This file does not carry ${method}: that takes the model (whence app --model ${explanations.model.name}).`,
    }));
  const chosen = request.methods.flatMap((name) => known.get(name) ?? []);
  return { ...explanations, explanations: chosen, failed: [...explanations.failed, ...failed] };
}

function selectFlow(fileData: FileData, entry: FileInput, request: S["FlowRequest"]): Flow {
  if (entry.without !== null) throw buildRefusal(entry.without, formatAppCommand(entry));
  const { weight, direction, token } = request;
  const why = entry.refused[weight];
  if (why !== undefined)
    throw new SourceError({
      code: "not-capturable",
      message: why,
      hint: "Choose another edge weight.",
      see: "docs/reference/architectures.md",
    });
  if ((request.classic ?? null) !== null || (request.residual ?? null) !== null) {
    throw buildRefusal(
      "A file carries no other thresholds or residual shares than the usual.",
      formatAppCommand(entry),
    );
  }
  const alike = listCandidates(entry, direction, token ?? null).filter((flow) => flow.weight === weight);
  const carried = alike.find((flow) => flow.specials === request.query.specials) ?? alike[0];
  if (carried === undefined)
    throw buildRefusal(describeMissing(fileData, entry, direction), formatAppCommand(entry));
  return filterFlow({ ...carried, tokens: entry.explanations.tokens }, request.query, request.most);
}

function listCandidates(
  entry: FileInput,
  direction: Flow["direction"],
  token: number | null,
): readonly FileFlow[] {
  if (direction === "back" && token === null) return entry.flows;
  return direction === "through" ? entry.words.filter((flow) => flow.token === token) : [];
}

function describeMissing(fileData: FileData, entry: FileInput, direction: Flow["direction"]): string {
  if (direction !== "through") return "This file carries traces back from the decision, not from a token.";
  if (fileData.left_out.includes("words"))
    return "Traces through words were left out of this file, for its size.";
  const long = entry.words.length === 0 ? "none for an input of this length" : "those by attention, of words";
  return `Of the traces through a token this file carries ${long}.`;
}

function selectHeads(entry: FileInput, request: S["HeadsRequest"]): Heads {
  const carried = entry.heads.find((heads) => heads.statistic === request.statistic);
  if (carried !== undefined) return carried;
  throw buildRefusal(
    entry.without ??
      entry.refused[request.statistic] ??
      "A file cannot switch heads off: that takes the model.",
    formatAppCommand(entry),
  );
}

function selectTensors(
  fileData: FileData,
  entry: FileInput,
  request: S["TensorsRequest"],
): Map<string, Tensor> {
  return new Map(request.keys.map((key) => [key, readTensor(fileData, entry, key)]));
}

function readTensor(fileData: FileData, entry: FileInput, key: string): Tensor {
  const thumbnails = key === "thumbnails";
  const carried = thumbnails ? entry.thumbnails : entry.maps;
  if (carried === null) {
    const what = thumbnails ? "no thumbnails" : "no maps of single heads";
    const left = fileData.left_out.includes(thumbnails ? "thumbnails" : "maps")
      ? ", for its size"
      : " of this input";
    throw buildRefusal(entry.without ?? `This file carries ${what}${left}.`, formatAppCommand(entry));
  }
  if (thumbnails) return { shape: carried.shape, data: Uint8Array.from(unpackArray(carried)) };
  const [, layer = -1, head = -1] = key.split(".").map(Number);
  const [layers = 0, heads = 0, rows = 0, columns = 0] = carried.shape;
  if (!(layer >= 0 && layer < layers && head >= 0 && head < heads))
    throw buildRefusal(`This file knows no ${key}.`, formatAppCommand(entry));
  const start = (layer * heads + head) * rows * columns;
  const roots = unpackArray(carried).subarray(start, start + rows * columns);
  return { shape: [rows, columns], data: Float32Array.from(roots, (root) => (root / 65535) ** 2) };
}

function selectComparison(fileData: FileData, request: S["CompareRequest"]): InputComparisonData {
  const carried = fileData.compared?.find(
    ({ a, b, flows }) => a.name === request.a && b.name === request.b && flows[0].weight === request.weight,
  );
  if (carried !== undefined && request.direction === "back") return carried;
  throw buildRefusal(
    "This file carries no such comparison.",
    `whence app --compare ${request.a} ${request.b}`,
  );
}

function buildSession(fileData: FileData): Session {
  const models = new Map(
    fileData.inputs.map((entry) => [entry.explanations.model.name, buildModelEntry(entry)]),
  );
  return {
    version: String(fileData.version),
    started: "file",
    models: [...models.values()],
    compare: null,
    data: [],
    samples: fileData.inputs.map(({ explanations }) => ({
      text: getText(explanations),
      pair: explanations.input.pair,
    })),
    allow_load: false,
    limits: { characters: 50_000, upload: 0, seconds: 0, edges: 5000, generated: 0 },
  };
}

function buildModelEntry({ explanations, flows, without }: FileInput): ModelEntry {
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
    pairs: false, // optional: the model may have one text here and two in another input
    takes_pairs: explanations.input.pair !== null,
    layers: flows[0]?.layers ?? null,
    heads: flows[0]?.heads ?? null,
    longest: null,
    attention: without,
    error: null,
  };
}
