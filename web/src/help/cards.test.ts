/** Tests of the help cards: filter by search, kind and family; counts of families; facts as text. */

import { describe, expect, it } from "vitest";

import type { Card } from "../api/types";
import { buildCardId, listFacts, formatFact, groupFamilies, matchesCard, filterCards } from "./cards";

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

describe("filterCards", () => {
  it("lists methods first, by name", () => {
    expect(filterCards(CARDS, NONE).map(buildCardId)).toEqual([
      "method:grad_x_input",
      "method:rollout",
      "weight:norm",
      "metric:deletion",
    ]);
  });

  it("search: every word must match, in facts too, underscores as spaces", () => {
    expect(filterCards(CARDS, { ...NONE, search: "abnar ATTENTION" }).map(({ name }) => name)).toEqual([
      "rollout",
    ]);
    expect(filterCards(CARDS, { ...NONE, search: "grad x" }).map(({ name }) => name)).toEqual([
      "grad_x_input",
    ]);
    expect(filterCards(CARDS, { ...NONE, search: "abnar norm" })).toEqual([]);
  });

  it("filters by kind and family", () => {
    expect(
      filterCards(CARDS, { ...NONE, kind: "method", family: "gradient" }).map(({ name }) => name),
    ).toEqual(["grad_x_input"]);
    expect(filterCards(CARDS, { ...NONE, kind: "weight" }).map(({ name }) => name)).toEqual(["norm"]);
  });

  it("empty search: returns all cards", () => {
    expect(CARDS.every((card) => matchesCard(card, "  "))).toBe(true);
  });
});

describe("groupFamilies", () => {
  it("counts the cards of each family by kind", () => {
    expect(groupFamilies(CARDS)).toEqual([
      { kind: "method", name: "attention", cards: 1 },
      { kind: "method", name: "gradient", cards: 1 },
      { kind: "metric", name: "faithfulness", cards: 1 },
    ]);
  });
});

describe("facts", () => {
  it("formatFact: writes lists, records and parameters as text", () => {
    expect(formatFact(true)).toBe("yes");
    expect(formatFact(null)).toBe("");
    expect(formatFact(["a", 2])).toBe("a, 2");
    expect(formatFact({ plain: { power: 2, of: null }, odd: {} })).toBe("plain (power 2, of none), odd ()");
    expect(formatFact([{ name: "layer", allowed: "an integer or none", default: null }])).toBe(
      "layer: an integer or none (none by default)",
    );
  });

  it("listFacts: important facts first, empty ones left out", () => {
    const card: Card = {
      kind: "method",
      name: "m",
      summary: "",
      facts: { cite: "X", needs: [], misleads_when: "often", formula: "s" },
    };
    expect(listFacts(card).map(({ title }) => title)).toEqual(["Formula", "Misleads when", "From"]);
  });
});
