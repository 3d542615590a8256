/** Functions of the help cards: ids, search and filters, grouping by kind and family, facts as text. */

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

/** Build the id of a card for links, such as "method:attcat". */
export function buildCardId(card: Card): string {
  return `${card.kind}:${card.name}`;
}

/** Return the family of a method or the kind of a metric; null for other cards. */
export function getFamily(card: Card): string | null {
  const family = card.facts["family"] ?? card.facts["kind"];
  return typeof family === "string" ? family : null;
}

/** Cards of one family. */
export interface Family {
  readonly kind: CardKind;
  readonly name: string;
  readonly cards: number;
}

/** Group cards by kind and family. */
export function groupFamilies(cards: readonly Card[]): readonly Family[] {
  const counts = new Map<string, Family>();
  for (const card of cards) {
    const name = getFamily(card);
    if (name === null) continue;
    const key = `${card.kind}:${name}`;
    counts.set(key, { kind: card.kind, name, cards: (counts.get(key)?.cards ?? 0) + 1 });
  }
  return [...counts.values()].sort(
    (a, b) => KIND_ORDER.indexOf(a.kind) - KIND_ORDER.indexOf(b.kind) || a.name.localeCompare(b.name, "en"),
  );
}

/** Whether every search word occurs in the card; spaces and underscores are equal. */
export function matchesCard(card: Card, search: string): boolean {
  const words = search.toLowerCase().replaceAll("_", " ").split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const text = [card.name, card.summary, ...Object.values(card.facts).map(formatFact)].join("\n");
  const plain = text.toLowerCase().replaceAll("_", " ");
  return words.every((word) => plain.includes(word));
}

/** Filter of the cards. */
export interface CardFilter {
  readonly search: string;
  readonly kind: CardKind | null;
  readonly family: string | null;
}

/** Select the cards that match a filter. */
export function filterCards(cards: readonly Card[], { search, kind, family }: CardFilter): readonly Card[] {
  return cards
    .filter((card) => kind === null || card.kind === kind)
    .filter((card) => family === null || getFamily(card) === family)
    .filter((card) => matchesCard(card, search))
    .sort(
      (a, b) => KIND_ORDER.indexOf(a.kind) - KIND_ORDER.indexOf(b.kind) || a.name.localeCompare(b.name, "en"),
    );
}

const FACT_TITLES: Readonly<Record<string, string>> = {
  misleads_when: "Misleads when",
  cite: "From",
  signed: "Signed",
};

// The most important facts first; others keep their order.
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

/** One fact of a card, formatted. */
export interface Fact {
  readonly name: string;
  readonly title: string;
  readonly text: string;
}

/** List the facts of a card, the most important first. */
export function listFacts(card: Card): readonly Fact[] {
  const place = (name: string): number => {
    const at = FACT_ORDER.indexOf(name);
    return at < 0 ? FACT_ORDER.length : at;
  };
  return Object.entries(card.facts)
    .map(([name, value]) => ({ name, title: formatTitle(name), text: formatFact(value) }))
    .filter(({ text }) => text !== "")
    .sort((a, b) => place(a.name) - place(b.name));
}

/** Format the value of a fact as text. */
export function formatFact(value: unknown): string {
  return value === null || value === undefined ? "" : formatValue(value);
}

function formatValue(value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(formatValue).join(value.some(isRecord) ? "; " : ", ");
  if (!isRecord(value)) return String(value as string | number);
  const { name, allowed, default: usual } = value;
  if (typeof name === "string" && "default" in value)
    return `${name}: ${formatValue(allowed)} (${formatValue(usual)} by default)`;
  return Object.entries(value)
    .map(([key, inner]) =>
      isRecord(inner) ? `${key} (${formatValue(inner)})` : `${key} ${formatValue(inner)}`,
    )
    .join(", ");
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function formatTitle(name: string): string {
  const known = FACT_TITLES[name];
  if (known !== undefined) return known;
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
