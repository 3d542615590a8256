import { describe, expect, it } from "vitest";

import type { ModelEntry, Session } from "../api/types";
import { SESSION } from "../../test/page";
import { DEFAULT } from "../state/state";
import { inputOf } from "./asked";
import { fieldsOf, isSample, labelsOf, masksOf, missing, samplesOf } from "./fields";

const entry = (change: Partial<ModelEntry>): ModelEntry => ({
  ...(SESSION.models[0] as ModelEntry),
  ...change,
});
const session = (change: Partial<ModelEntry>): Session => ({
  ...SESSION,
  models: [entry(change)],
  samples: [
    { text: "a film", pair: null },
    { text: "who?", pair: "she", task: "answer" },
    { text: "a [MASK] film", pair: null, task: "mask" },
  ],
});
const SHAPES = { task: "multi_label", modality: "picture", draws: true } as const;

describe("the fields of a task", () => {
  it.each([
    ["answer", ["text", "pair"]],
    ["tags", ["text", "at"]],
    ["next", ["text", "answer", "generate"]],
    ["sequence", ["text", "answer", "generate"]],
    ["similarity", ["text", "picture", "labels"]],
    ["single_label", ["text"]],
  ])("of %s", (task, wanted) => {
    const fields = fieldsOf(entry({ task, takes_pairs: false }));
    const present = (["text", "pair", "picture", "at", "answer", "labels", "generate"] as const).filter(
      (name) => fields[name],
    );
    expect(new Set(present)).toEqual(new Set(wanted));
  });

  it("are a picture alone for a model that looks at pictures", () => {
    const { text, picture, pair } = fieldsOf(entry(SHAPES));
    expect([text, picture, pair]).toEqual([null, true, null]);
  });

  it("are labels and a sentence for them, where any labels can be put to the model", () => {
    const { labels, template } = fieldsOf(entry({ task: "single_label", zero_shot: true }));
    expect([labels, template]).toEqual(["Labels", true]);
  });
});

describe("what is asked", () => {
  it("begins with a sample of the task, with the model's own mask", () => {
    expect(inputOf(DEFAULT, session({ task: "answer" }))).toMatchObject({ text: "who?", pair: "she" });
    expect(inputOf(DEFAULT, session({ task: "mask", mask: "<m>" })).text).toBe("a <m> film");
    expect(samplesOf(entry({ task: "tags" }), session({}))).toEqual([{ text: "a film", pair: null }]);
  });

  it("begins with a sample of the model's own, where it has one", () => {
    const own = { text: "warm and funny", pair: null };
    expect(inputOf(DEFAULT, session({ samples: [own] })).text).toBe("warm and funny");
    const here = session({ samples: [own] });
    expect(isSample({ text: "warm and funny", pair: null }, here)).toBe(true);
    expect(isSample({ text: "a film", pair: null }, here)).toBe(true);
    expect(isSample({ text: "a text of mine", pair: null }, here)).toBe(false);
  });

  it("leaves out what the model has no use for", () => {
    const state = { ...DEFAULT, text: "x", at: "1", answer: "y", labels: "a, b", picture: "p", entity: 2 };
    expect(Object.keys(inputOf(state, session({ task: "single_label" })))).not.toContain("at");
    expect(inputOf(state, session({ task: "mask" }))).toMatchObject({ at: "1" });
    expect(inputOf(state, session({ task: "next" }))).toMatchObject({ answer: "y" });
    expect(inputOf({ ...state, at: null }, session({ task: "tags" }))).toMatchObject({ entity: 2 });
    expect(inputOf(state, session({ task: "similarity", modality: "both" }))).toMatchObject({
      picture: "p",
      labels: ["a", "b"],
    });
    expect(inputOf(state, session(SHAPES))).toMatchObject({ text: "", picture: "p" });
  });

  it("is the first drawing, where one can be drawn", () => {
    expect(inputOf(DEFAULT, session(SHAPES)).picture).toBe("shapes:0");
    expect(inputOf(DEFAULT, session({ ...SHAPES, draws: false })).picture).toBeUndefined();
  });

  it("waits for what is missing, and says what", () => {
    const ask = (change: Partial<ModelEntry>, state = DEFAULT) => {
      const here = session(change);
      return missing(inputOf(state, { ...here, samples: [] }), here.models[0]);
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

it("labels stand between commas, masks are counted", () => {
  expect(labelsOf(" a cat,, a dog ,")).toEqual(["a cat", "a dog"]);
  expect(masksOf("a [MASK] film with a [MASK]", entry({ mask: "[MASK]" }))).toBe(2);
  expect(masksOf("none", entry({ mask: null }))).toBe(0);
});
