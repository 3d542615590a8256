import { describe, expect, it } from "vitest";

import type { Card } from "../api/types";
import { cardId, factsOf, factText, families, found, soughtCards } from "./cards";

const CARDS: readonly Card[] = [
  {
    kind: "metric",
    name: "deletion",
    summary: "Removes tokens.",
    facts: { kind: "faithfulness", direction: "lower" },
  },
  {
    kind: "method",
    name: "rollout",
    summary: "Multiplies attention.",
    facts: { family: "attention", cite: "Abnar 2020" },
  },
  {
    kind: "method",
    name: "grad_x_input",
    summary: "Slope times value.",
    facts: { family: "gradient", signed: true },
  },
  { kind: "weight", name: "norm", summary: "Norm of the values.", facts: {} },
];
const NONE = { search: "", kind: null, family: null };

describe("soughtCards", () => {
  it("puts methods first, by name", () => {
    expect(soughtCards(CARDS, NONE).map(cardId)).toEqual([
      "method:grad_x_input",
      "method:rollout",
      "weight:norm",
      "metric:deletion",
    ]);
  });

  it("finds every word, in facts too, with spaces for underscores", () => {
    expect(soughtCards(CARDS, { ...NONE, search: "abnar ATTENTION" }).map(({ name }) => name)).toEqual([
      "rollout",
    ]);
    expect(soughtCards(CARDS, { ...NONE, search: "grad x" }).map(({ name }) => name)).toEqual([
      "grad_x_input",
    ]);
    expect(soughtCards(CARDS, { ...NONE, search: "abnar norm" })).toEqual([]);
  });

  it("filters by kind and family", () => {
    expect(
      soughtCards(CARDS, { ...NONE, kind: "method", family: "gradient" }).map(({ name }) => name),
    ).toEqual(["grad_x_input"]);
    expect(soughtCards(CARDS, { ...NONE, kind: "weight" }).map(({ name }) => name)).toEqual(["norm"]);
  });

  it("takes an empty search for all", () => {
    expect(CARDS.every((card) => found(card, "  "))).toBe(true);
  });
});

describe("families", () => {
  it("are counted, by kind", () => {
    expect(families(CARDS)).toEqual([
      { kind: "method", name: "attention", cards: 1 },
      { kind: "method", name: "gradient", cards: 1 },
      { kind: "metric", name: "faithfulness", cards: 1 },
    ]);
  });
});

describe("facts", () => {
  it("are put in words", () => {
    expect(factText(true)).toBe("yes");
    expect(factText(null)).toBe("");
    expect(factText(["a", 2])).toBe("a, 2");
    expect(factText({ plain: { power: 2, of: null }, odd: {} })).toBe("plain (power 2, of none), odd ()");
    expect(factText([{ name: "layer", allowed: "an integer or none", default: null }])).toBe(
      "layer: an integer or none (none by default)",
    );
  });

  it("say first what matters, and nothing that is empty", () => {
    const card: Card = {
      kind: "method",
      name: "m",
      summary: "",
      facts: { cite: "X", needs: [], misleads_when: "often", formula: "s" },
    };
    expect(factsOf(card).map(({ title }) => title)).toEqual(["Formula", "Misleads when", "From"]);
  });
});
