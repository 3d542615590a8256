/** Query of a data set's rows: filter, order, page, limits; written to the link and parsed from it. */

import { NO_FILTER, BY_SURPRISE, COLUMNS, type RowOrder, type RowFilter } from "./rows";

/** Filter, order and page of the table, and the limits of the jobs. */
export interface RowQuery {
  readonly filter: RowFilter;
  readonly order: RowOrder;
  readonly page: number; // of the table, from 0
  readonly at: number | null; // row open in the workbench, by its number in the file
  readonly predict: number | null; // number of rows to predict; null: the default
  readonly take: number | null; // number of rows for the slower jobs
  readonly least: number; // least number of texts that contain a word
  readonly place: string | null; // kind of token, for attention patterns
}

export const DEFAULT_ROW_QUERY: RowQuery = {
  filter: NO_FILTER,
  order: BY_SURPRISE,
  page: 0,
  at: null,
  predict: null,
  take: null,
  least: 3,
  place: null,
};

const NUMBERS = ["page", "at", "predict", "take", "least"] as const;

/** Write a query for the link; defaults are left out. */
export function formatRowQuery(query: RowQuery): string {
  const { filter, order, place } = query;
  const parts = new URLSearchParams();
  if (filter.search !== "") parts.set("search", filter.search);
  if (filter.label !== null) parts.set("label", filter.label);
  if (filter.predicted !== null) parts.set("predicted", filter.predicted);
  if (filter.right !== null) parts.set("right", filter.right ? "yes" : "no");
  if (filter.numbers !== null) parts.set("numbers", filter.numbers.join("."));
  if (order.column !== BY_SURPRISE.column || order.descending !== BY_SURPRISE.descending) {
    parts.set("by", `${order.descending ? "-" : ""}${order.column}`);
  }
  for (const name of NUMBERS)
    if (query[name] !== DEFAULT_ROW_QUERY[name]) parts.set(name, String(query[name]));
  if (place !== null) parts.set("place", place);
  return parts.toString();
}

/** Parse a query from the link; unreadable parts get their default. */
export function parseRowQuery(text: string): RowQuery {
  const parts = new URLSearchParams(text);
  const right = parts.get("right");
  const numbers = parts.get("numbers");
  return {
    filter: {
      search: parts.get("search") ?? NO_FILTER.search,
      label: parts.get("label"),
      predicted: parts.get("predicted"),
      right: right === "yes" ? true : right === "no" ? false : null,
      numbers: numbers !== null && /^\d+(\.\d+)*$/.test(numbers) ? numbers.split(".").map(Number) : null,
    },
    order: parseOrder(parts.get("by")),
    page: parseWhole(parts.get("page")) ?? DEFAULT_ROW_QUERY.page,
    at: parseWhole(parts.get("at")),
    predict: parseWhole(parts.get("predict")) || null,
    take: parseWhole(parts.get("take")) || null,
    least: parseWhole(parts.get("least")) || DEFAULT_ROW_QUERY.least,
    place: parts.get("place"),
  };
}

function parseWhole(text: string | null): number | null {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function parseOrder(text: string | null): RowOrder {
  const descending = text?.startsWith("-") ?? false;
  const column = COLUMNS.find((name) => name === text?.replace(/^-/, ""));
  return column === undefined ? BY_SURPRISE : { column, descending };
}
