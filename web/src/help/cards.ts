/** The cards of the help page: found by words, sorted by kind and family. */

import type { Card } from "../api/types";

export type CardKind = Card["kind"];

export const KINDS: Readonly<Record<CardKind, { readonly title: string; readonly intro: string }>> = {
  method: {
    title: "Methods",
    intro:
      "Each gives every token of an input one number: how much it counts for the answer that is explained.",
  },
  weight: {
    title: "Edge weights",
    intro: "What an edge of the flow view is worth, before anything flows along it.",
  },
  metric: {
    title: "Metrics",
    intro: "Each tests an explanation and stands beside what explanations get that know nothing.",
  },
  experiment: {
    title: "Experiments",
    intro:
      "Each tests a claim that must hold if a model's attention is to be read as an explanation; an audit runs them.",
  },
};

export const KIND_ORDER: readonly CardKind[] = ["method", "weight", "metric", "experiment"];

/** A card's own address, such as "method:attcat". */
export function cardId(card: Card): string {
  return `${card.kind}:${card.name}`;
}

/** Methods have a family, metrics a kind; the rest has none. */
export function familyOf(card: Card): string | null {
  const family = card.facts["family"] ?? card.facts["kind"];
  return typeof family === "string" ? family : null;
}

export interface Family {
  readonly kind: CardKind;
  readonly name: string;
  readonly cards: number;
}

export function families(cards: readonly Card[]): readonly Family[] {
  const counts = new Map<string, Family>();
  for (const card of cards) {
    const name = familyOf(card);
    if (name === null) continue;
    const key = `${card.kind}:${name}`;
    counts.set(key, { kind: card.kind, name, cards: (counts.get(key)?.cards ?? 0) + 1 });
  }
  return [...counts.values()].sort(
    (a, b) => KIND_ORDER.indexOf(a.kind) - KIND_ORDER.indexOf(b.kind) || a.name.localeCompare(b.name, "en"),
  );
}

/** Every word must stand somewhere in the card; spaces and underscores are the same. */
export function found(card: Card, search: string): boolean {
  const words = search.toLowerCase().replaceAll("_", " ").split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const text = [card.name, card.summary, ...Object.values(card.facts).map(factText)].join("\n");
  const plain = text.toLowerCase().replaceAll("_", " ");
  return words.every((word) => plain.includes(word));
}

export interface Sought {
  readonly search: string;
  readonly kind: CardKind | null;
  readonly family: string | null;
}

export function soughtCards(cards: readonly Card[], { search, kind, family }: Sought): readonly Card[] {
  return cards
    .filter((card) => kind === null || card.kind === kind)
    .filter((card) => family === null || familyOf(card) === family)
    .filter((card) => found(card, search))
    .sort(
      (a, b) => KIND_ORDER.indexOf(a.kind) - KIND_ORDER.indexOf(b.kind) || a.name.localeCompare(b.name, "en"),
    );
}

const FACT_TITLES: Readonly<Record<string, string>> = {
  misleads_when: "Misleads when",
  cite: "From",
  signed: "Signed",
};

// What is worth reading first; the rest follows as it came.
const FACT_ORDER = [
  "hypothesis",
  "measure",
  "formula",
  "misleads_when",
  "direction",
  "range",
  "null",
  "threshold",
  "cost",
  "calls",
  "cite",
];

export interface Fact {
  readonly name: string;
  readonly title: string;
  readonly text: string;
}

export function factsOf(card: Card): readonly Fact[] {
  const place = (name: string): number => {
    const at = FACT_ORDER.indexOf(name);
    return at < 0 ? FACT_ORDER.length : at;
  };
  return Object.entries(card.facts)
    .map(([name, value]) => ({ name, title: titleOf(name), text: factText(value) }))
    .filter(({ text }) => text !== "")
    .sort((a, b) => place(a.name) - place(b.name));
}

export function factText(value: unknown): string {
  return value === null || value === undefined ? "" : inWords(value);
}

function inWords(value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(inWords).join(value.some(isRecord) ? "; " : ", ");
  if (!isRecord(value)) return String(value as string | number);
  const { name, allowed, default: usual } = value;
  if (typeof name === "string" && "default" in value)
    return `${name}: ${inWords(allowed)} (${inWords(usual)} by default)`;
  return Object.entries(value)
    .map(([key, inner]) => (isRecord(inner) ? `${key} (${inWords(inner)})` : `${key} ${inWords(inner)}`))
    .join(", ");
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function titleOf(name: string): string {
  const known = FACT_TITLES[name];
  if (known !== undefined) return known;
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
