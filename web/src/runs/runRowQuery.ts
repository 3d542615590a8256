/** Query of a run's rows (filter, order, page, open row): written to and read from the link, sent to the server. */

/** Order of the rows by a metric. */
export type MetricOrder = "data" | "best" | "worst";

/** Filter, order and page of a run's rows, and the row that is open. */
export interface RunRowQuery {
  readonly method: string | null;
  readonly failed: boolean | null;
  readonly search: string;
  readonly metric: string | null; // metric of the value column
  readonly order: MetricOrder; // by that metric
  readonly page: number; // from 0
  readonly at: number | null; // the row that is open
  readonly by: string | null; // method of the open row
}

export const DEFAULT_RUN_ROW_QUERY: RunRowQuery = {
  method: null,
  failed: null,
  search: "",
  metric: null,
  order: "data",
  page: 0,
  at: null,
  by: null,
};

/** Rows of a page, equal to the server's. */
export const PAGE_ROWS = 50; // as on the server

/** Build the part of the query that the server and the link share. */
function buildSearchParams(query: RunRowQuery): URLSearchParams {
  const parts = new URLSearchParams();
  if (query.method !== null) parts.set("method", query.method);
  if (query.failed !== null) parts.set("failed", String(query.failed));
  if (query.search.trim() !== "") parts.set("search", query.search.trim());
  if (query.metric !== null) parts.set("metric", query.metric);
  if (query.metric !== null && query.order !== "data") parts.set("order", query.order);
  if (query.page > 0) parts.set("page", String(query.page));
  return parts;
}

/** Format the query for the server, with "?" where it is not empty. */
export function formatServerQuery(query: RunRowQuery): string {
  const parts = buildSearchParams(query).toString();
  return parts === "" ? "" : `?${parts}`;
}

/** Format the query for the link. */
export function formatRunRowQuery(query: RunRowQuery): string {
  const parts = buildSearchParams(query);
  if (query.at !== null) parts.set("at", String(query.at));
  if (query.at !== null && query.by !== null) parts.set("by", query.by);
  return parts.toString();
}

/** Parse a query from the link; unreadable parts get their default. */
export function parseRunRowQuery(text: string): RunRowQuery {
  const parts = new URLSearchParams(text);
  const failed = parts.get("failed");
  const order = parts.get("order");
  return {
    method: parts.get("method"),
    failed: failed === "true" ? true : failed === "false" ? false : null,
    search: parts.get("search") ?? "",
    metric: parts.get("metric"),
    order: order === "best" || order === "worst" ? order : "data",
    page: parseWhole(parts.get("page")) ?? 0,
    at: parseWhole(parts.get("at")),
    by: parts.get("by"),
  };
}

function parseWhole(text: string | null): number | null {
  return text !== null && /^\d{1,7}$/.test(text) ? Number(text) : null;
}
