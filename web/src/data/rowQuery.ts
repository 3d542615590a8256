/** What is asked of a data set, as a word in the link, and back. What cannot be read is left out. */

import { ALL, BY_SURPRISE, COLUMNS, type Order, type Wanted } from "./rows";

export interface Asked {
  readonly wanted: Wanted;
  readonly order: Order;
  readonly page: number; // of the table, from 0
  readonly at: number | null; // the row that is explained, by its number in the file
  readonly predict: number | null; // how many rows are predicted; null: as many as usual
  readonly take: number | null; // how many the slower work takes
  readonly least: number; // in how many texts a word must stand
  readonly place: string | null; // which kind of place heads attend to
}

export const USUAL: Asked = {
  wanted: ALL,
  order: BY_SURPRISE,
  page: 0,
  at: null,
  predict: null,
  take: null,
  least: 3,
  place: null,
};

const NUMBERS = ["page", "at", "predict", "take", "least"] as const;

export function writeRows(asked: Asked): string {
  const { wanted, order, place } = asked;
  const parts = new URLSearchParams();
  if (wanted.search !== "") parts.set("search", wanted.search);
  if (wanted.label !== null) parts.set("label", wanted.label);
  if (wanted.predicted !== null) parts.set("predicted", wanted.predicted);
  if (wanted.right !== null) parts.set("right", wanted.right ? "yes" : "no");
  if (wanted.numbers !== null) parts.set("numbers", wanted.numbers.join("."));
  if (order.column !== BY_SURPRISE.column || order.descending !== BY_SURPRISE.descending) {
    parts.set("by", `${order.descending ? "-" : ""}${order.column}`);
  }
  for (const name of NUMBERS) if (asked[name] !== USUAL[name]) parts.set(name, String(asked[name]));
  if (place !== null) parts.set("place", place);
  return parts.toString();
}

export function readRows(written: string): Asked {
  const parts = new URLSearchParams(written);
  const right = parts.get("right");
  const numbers = parts.get("numbers");
  return {
    wanted: {
      search: parts.get("search") ?? ALL.search,
      label: parts.get("label"),
      predicted: parts.get("predicted"),
      right: right === "yes" ? true : right === "no" ? false : null,
      numbers: numbers !== null && /^\d+(\.\d+)*$/.test(numbers) ? numbers.split(".").map(Number) : null,
    },
    order: readOrder(parts.get("by")),
    page: whole(parts.get("page")) ?? USUAL.page,
    at: whole(parts.get("at")),
    predict: whole(parts.get("predict")) || null,
    take: whole(parts.get("take")) || null,
    least: whole(parts.get("least")) || USUAL.least,
    place: parts.get("place"),
  };
}

function whole(written: string | null): number | null {
  return written !== null && /^\d{1,9}$/.test(written) ? Number(written) : null;
}

function readOrder(written: string | null): Order {
  const descending = written?.startsWith("-") ?? false;
  const column = COLUMNS.find((name) => name === written?.replace(/^-/, ""));
  return column === undefined ? BY_SURPRISE : { column, descending };
}
