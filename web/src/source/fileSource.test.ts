/** Tests of the file source: flows and their filters, explanations, tensors, refusals out of reach. */

import { describe, expect, it } from "vitest";

import type { Explanations, Flow, FlowRequest, Token } from "../api/types";
import { createFileSource } from "./fileSource";
import { filterFlow } from "./edgeFilter";
import { type FileFlow, type FileInput, type FileData, readFileData } from "./fileData";
import { SourceError } from "./source";

const makeToken = (text: string, special: boolean, segment = 0): Token => ({
  text,
  start: special ? null : 0,
  end: special ? null : text.length,
  segment,
  special,
  id: 1,
});
const TOKENS = [
  makeToken("[CLS]", true),
  makeToken("good", false),
  makeToken("bad", false, 1),
  makeToken("[SEP]", true, 1),
];

/** Five edges: strongest first, two of them on special tokens. */
const EDGES = {
  layer: [1, 1, 0, 0, 0],
  head: [0, 1, 0, 1, 1],
  source: [0, 0, 0, 1, 2],
  to: [1, 3, 2, 1, 0],
  flow: [0.3, 0.2, 0.125, 0.1, 0.025],
  weight: [0.6, 0.4, 0.5, 0.9, 0.2],
};

const FLOW: FileFlow = {
  version: 1,
  kind: "flow",
  model: "m",
  target: null,
  weight: "attention",
  class_free: true,
  direction: "back",
  token: null,
  layers: 2,
  heads: 2,
  per_head: true,
  edges: EDGES,
  count: 5,
  total: 0.75,
  sent: 0.75,
  whole: 0.75,
  nodes: [],
  residual: [],
  residual_share: [],
  special_share: [],
  shares: [],
  influence: null,
  note: "Attention.",
  specials: true,
};

const EXPLANATIONS = {
  model: { name: "m", labels: ["no", "yes"], fingerprint: "f" },
  input: { text: "good", pair: "bad", dropped: 0 },
  tokens: TOKENS,
  words: [],
  prediction: { label: "yes", index: 1 },
  target: { label: "yes", index: 1, against: null, of: "logit" },
  explanations: [{ method: "attcat" }, { method: "rollout" }],
  failed: [],
} as unknown as Explanations;

const ENTRY: FileInput = {
  explanations: EXPLANATIONS,
  flows: [FLOW],
  words: [{ ...FLOW, direction: "through", token: 1, specials: false }],
  heads: [],
  thumbnails: { shape: [2, 2, 1, 1], dtype: "uint8", data: btoa("\x00\x10\x20\xff") },
  // Two maps of 1 x 2 in a layer: roots 0, 65535 and 32768, 1, little-endian.
  maps: { shape: [1, 2, 1, 2], dtype: "uint16", data: btoa("\x00\x00\xff\xff\x00\x80\x01\x00") },
  refused: { relevance: "No rule for this." },
  without: null,
};
const PAYLOAD: FileData = { version: 1, kind: "page", inputs: [ENTRY], left_out: [] };
const INPUT = { model: "m", text: "good", pair: "bad", target: null, of: "logit" as const, truncate: true };
const OPEN = { layers: null, heads: [], tokens: [], segments: [], least: 0, specials: true };

const buildRequest = (change: Partial<FlowRequest> = {}): FlowRequest => ({
  input: INPUT,
  weight: "attention",
  direction: "back",
  token: null,
  residual: null,
  query: OPEN,
  classic: null,
  most: 5000,
  ...change,
});
const source = createFileSource(PAYLOAD, ENTRY);

async function catchRefusal(answer: Promise<unknown>): Promise<string> {
  const error: unknown = await answer.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(SourceError);
  const { fault } = error as SourceError;
  return `${fault.message} ${fault.hint}`;
}

describe("flow", () => {
  it("unfiltered: returns the file's flow with its tokens", async () => {
    const flow = await source.flow(buildRequest());
    expect(flow.edges).toEqual(EDGES);
    expect(flow.tokens).toEqual(TOKENS);
    expect(flow).not.toHaveProperty("specials");
  });

  it.each([
    ["layers", { layers: [1, 1] as [number, number] }, [0, 1]],
    ["heads", { heads: [[0, 1]] as [number, number][] }, [3, 4]],
    ["tokens, at either end", { tokens: [1] }, [0, 3]],
    ["segments", { segments: ["A>B" as const] }, [1, 2]],
    ["strength", { least: 0.5 }, [0, 2, 3]],
    ["special tokens", { specials: false }, [0, 2, 3]],
    ["all at once", { layers: [0, 0] as [number, number], specials: false, least: 0.6 }, [3]],
  ])("filters by %s", async (_, query, places) => {
    const flow = await source.flow(buildRequest({ query: { ...OPEN, ...query } }));
    expect(flow.edges.flow).toEqual(places.map((place) => EDGES.flow[place]));
    expect(flow.count).toBe(places.length);
    expect(flow.total).toBeCloseTo(
      places.reduce((sum, place) => sum + (EDGES.flow[place] ?? 0), 0),
      12,
    );
    expect(flow.note).toBe("Attention."); // all edges are carried, so nothing is missing
  });

  it("file without all edges: notes that it filtered the strongest", () => {
    const flow: Flow & { specials: boolean } = { ...FLOW, count: 9, tokens: TOKENS };
    expect(filterFlow(flow, { ...OPEN, least: 0.5 }, 5000).note).toContain("only the 5 strongest of 9 edges");
    expect(filterFlow(flow, OPEN, 5000).total).toBe(0.75);
    expect(filterFlow({ ...flow, specials: false }, OPEN, 5000).note).toContain(
      "special tokens are not in this file",
    );
  });

  it("weight without heads: a head selects its layer", () => {
    const together = { ...FLOW, edges: { ...EDGES, head: EDGES.head.map(() => -1) }, tokens: TOKENS };
    expect(filterFlow(together, { ...OPEN, heads: [[0, 1]] }, 5000).edges.layer).toEqual([0, 0, 0]);
  });

  it("sends at most the requested number of edges", async () => {
    const flow = await source.flow(buildRequest({ most: 2 }));
    expect(flow.edges.flow).toEqual([0.3, 0.2]);
    expect(flow.sent).toBeCloseTo(0.5, 12);
    expect([flow.count, flow.total]).toEqual([5, 0.75]);
  });

  it("known word: traced; other words: refused with the command", async () => {
    const through = await source.flow(buildRequest({ direction: "through", token: 1 }));
    expect(through.token).toBe(1);
    expect(await catchRefusal(source.flow(buildRequest({ direction: "through", token: 2 })))).toContain(
      "whence app --model m",
    );
    expect(await catchRefusal(source.flow(buildRequest({ direction: "forward", token: 1 })))).toContain(
      "whence app --model m",
    );
    expect(await catchRefusal(source.flow(buildRequest({ residual: 0.1 })))).toContain("whence app");
    const classic = { threshold: 0.1, decay: 0.5, carry: true };
    expect(await catchRefusal(source.flow(buildRequest({ classic })))).toContain("whence app");
    expect(await catchRefusal(source.flow(buildRequest({ weight: "relevance" })))).toContain(
      "No rule for this.",
    );
  });
});

describe("createFileSource", () => {
  it("explains its own input by its own methods", async () => {
    const explanations = await source.explain({ input: INPUT, methods: ["rollout", "lime"] });
    expect(explanations.explanations.map((one) => one.method)).toEqual(["rollout"]);
    expect(explanations.failed.map((one) => one.method)).toEqual(["lime"]);
    expect(
      await catchRefusal(source.explain({ input: { ...INPUT, text: "new" }, methods: ["attcat"] })),
    ).toContain("app");
    expect(
      await catchRefusal(source.explain({ input: { ...INPUT, target: "no" }, methods: ["attcat"] })),
    ).toContain("yes");
  });

  it("unpacks maps and thumbnails", async () => {
    const tensors = await source.tensors({ input: INPUT, keys: ["attention.0.1", "thumbnails"] });
    const map = tensors.get("attention.0.1");
    expect(map?.shape).toEqual([1, 2]);
    expect([...(map?.data ?? [])]).toEqual([
      Math.fround((32768 / 65535) ** 2),
      Math.fround((1 / 65535) ** 2),
    ]);
    expect([...(tensors.get("thumbnails")?.data ?? [])]).toEqual([0, 16, 32, 255]);
    expect(await catchRefusal(source.tensors({ input: INPUT, keys: ["attention.1.0"] }))).toContain(
      "attention.1.0",
    );
  });

  it("requests out of reach: refused with a reason", async () => {
    const bare = createFileSource(PAYLOAD, {
      ...ENTRY,
      flows: [],
      maps: null,
      without: "It came without its model.",
    });
    expect(bare.reach?.trace).toBe(false);
    expect(await catchRefusal(bare.flow(buildRequest()))).toContain("It came without its model.");
    expect(await catchRefusal(source.trust({ input: INPUT, methods: ["attcat"], budget: null }))).toContain(
      'whence trust "…" --model m --method attcat',
    );
    expect(await catchRefusal(source.verify({ input: INPUT, edges: [], draws: 30, seed: 0 }))).toContain(
      "whence app",
    );
    expect(await catchRefusal(source.heads({ input: INPUT, statistic: "ablation" }))).toContain(
      "whence app --model m",
    );
    expect(source.reach?.methods).toEqual(["attcat", "rollout"]);
    expect((await source.session()).models[0]).toMatchObject({ id: "m", layers: 2, heads: 2 });
  });

  it("readFileData: reads the JSON element; without one, returns null", () => {
    const element = (text: string): unknown => ({
      getAttribute: () => "application/json",
      textContent: text,
    });
    const page = (text: string | null): Document =>
      ({ getElementById: () => (text === null ? null : element(text)) }) as unknown as Document;
    expect(readFileData(page('{"kind":"page"}'))).toEqual({ kind: "page" });
    expect(readFileData(page(null))).toBeNull();
  });
});
