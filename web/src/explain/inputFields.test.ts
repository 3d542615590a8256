/** Tests of the form fields of each task, and of buildInput: samples, dropped fields, drawings, masks. */

import { describe, expect, it } from "vitest";

import type { ModelEntry, Session } from "../api/types";
import { SESSION } from "../../test/pageHarness";
import { DEFAULT } from "../state/state";
import { buildInput } from "./inputRequest";
import { findFields, isSample, parseLabels, countMasks, explainMissing, findSamples } from "./inputFields";

const makeEntry = (change: Partial<ModelEntry>): ModelEntry => ({
  ...(SESSION.models[0] as ModelEntry),
  ...change,
});
const makeSession = (change: Partial<ModelEntry>): Session => ({
  ...SESSION,
  models: [makeEntry(change)],
  samples: [
    { text: "a film", pair: null },
    { text: "who?", pair: "she", task: "answer" },
    { text: "a [MASK] film", pair: null, task: "mask" },
  ],
});
const SHAPES = { task: "multi_label", modality: "picture", draws: true } as const;

describe("findFields", () => {
  it.each([
    ["answer", ["text", "pair"]],
    ["tags", ["text", "at"]],
    ["next", ["text", "answer", "generate"]],
    ["sequence", ["text", "answer", "generate"]],
    ["similarity", ["text", "picture", "labels"]],
    ["single_label", ["text"]],
  ])("%s: has the fields of its task", (task, wanted) => {
    const fields = findFields(makeEntry({ task, takes_pairs: false }));
    const present = (["text", "pair", "picture", "at", "answer", "labels", "generate"] as const).filter(
      (name) => fields[name],
    );
    expect(new Set(present)).toEqual(new Set(wanted));
  });

  it("vision model: has a picture field only", () => {
    const { text, picture, pair } = findFields(makeEntry(SHAPES));
    expect([text, picture, pair]).toEqual([null, true, null]);
  });

  it("zero-shot model: has labels and their template", () => {
    const { labels, template } = findFields(makeEntry({ task: "single_label", zero_shot: true }));
    expect([labels, template]).toEqual(["Labels", true]);
  });
});

describe("buildInput", () => {
  it("empty text: takes the task's sample, with the model's own mask", () => {
    expect(buildInput(DEFAULT, makeSession({ task: "answer" }))).toMatchObject({ text: "who?", pair: "she" });
    expect(buildInput(DEFAULT, makeSession({ task: "mask", mask: "<m>" })).text).toBe("a <m> film");
    expect(findSamples(makeEntry({ task: "tags" }), makeSession({}))).toEqual([
      { text: "a film", pair: null },
    ]);
  });

  it("empty text: prefers the model's own sample", () => {
    const own = { text: "warm and funny", pair: null };
    expect(buildInput(DEFAULT, makeSession({ samples: [own] })).text).toBe("warm and funny");
    const here = makeSession({ samples: [own] });
    expect(isSample({ text: "warm and funny", pair: null }, here)).toBe(true);
    expect(isSample({ text: "a film", pair: null }, here)).toBe(true);
    expect(isSample({ text: "a text of mine", pair: null }, here)).toBe(false);
  });

  it("drops fields that the model's task lacks", () => {
    const state = { ...DEFAULT, text: "x", at: "1", answer: "y", labels: "a, b", picture: "p", entity: 2 };
    expect(Object.keys(buildInput(state, makeSession({ task: "single_label" })))).not.toContain("at");
    expect(buildInput(state, makeSession({ task: "mask" }))).toMatchObject({ at: "1" });
    expect(buildInput(state, makeSession({ task: "next" }))).toMatchObject({ answer: "y" });
    expect(buildInput({ ...state, at: null }, makeSession({ task: "tags" }))).toMatchObject({ entity: 2 });
    expect(buildInput(state, makeSession({ task: "similarity", modality: "both" }))).toMatchObject({
      picture: "p",
      labels: ["a", "b"],
    });
    expect(buildInput(state, makeSession(SHAPES))).toMatchObject({ text: "", picture: "p" });
  });

  it("vision model that can draw: takes the first drawing", () => {
    expect(buildInput(DEFAULT, makeSession(SHAPES)).picture).toBe("shapes:0");
    expect(buildInput(DEFAULT, makeSession({ ...SHAPES, draws: false })).picture).toBeUndefined();
  });

  it("explainMissing names the missing input", () => {
    const ask = (change: Partial<ModelEntry>, state = DEFAULT) => {
      const here = makeSession(change);
      return explainMissing(buildInput(state, { ...here, samples: [] }), here.models[0]);
    };
    expect(ask({ ...SHAPES, draws: false })).toMatch(/^Bring a picture/);
    expect(ask(SHAPES)).toBeNull();
    expect(ask({ task: "answer", pairs: true }, { ...DEFAULT, text: "who?" })).toMatch(/^Context/);
    expect(ask({ task: "similarity", modality: "both" }, { ...DEFAULT, picture: "p" })).toMatch(
      /^Which texts/,
    );
    expect(ask({ task: "single_label" }, { ...DEFAULT, text: "x" })).toBeNull();
  });
});

it("parseLabels splits at commas, countMasks counts mask tokens", () => {
  expect(parseLabels(" a cat,, a dog ,")).toEqual(["a cat", "a dog"]);
  expect(countMasks("a [MASK] film with a [MASK]", makeEntry({ mask: "[MASK]" }))).toBe(2);
  expect(countMasks("none", makeEntry({ mask: null }))).toBe(0);
});
