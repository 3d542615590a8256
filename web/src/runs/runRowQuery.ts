/** Which rows of a run are asked for: as a word in the link, as a question to the server, and back. */

export type Order = "data" | "best" | "worst";

export interface Asked {
  readonly method: string | null;
  readonly failed: boolean | null;
  readonly search: string;
  readonly metric: string | null; // its values stand beside the rows
  readonly order: Order; // by that metric
  readonly page: number; // from 0
  readonly at: number | null; // the row that is open
  readonly by: string | null; // and the method that it is open by
}

export const USUAL: Asked = {
  method: null,
  failed: null,
  search: "",
  metric: null,
  order: "data",
  page: 0,
  at: null,
  by: null,
};

export const PAGE = 50; // rows, as the server has it

/** What the server is asked, and part of the link. */
function chosen(asked: Asked): URLSearchParams {
  const parts = new URLSearchParams();
  if (asked.method !== null) parts.set("method", asked.method);
  if (asked.failed !== null) parts.set("failed", String(asked.failed));
  if (asked.search.trim() !== "") parts.set("search", asked.search.trim());
  if (asked.metric !== null) parts.set("metric", asked.metric);
  if (asked.metric !== null && asked.order !== "data") parts.set("order", asked.order);
  if (asked.page > 0) parts.set("page", String(asked.page));
  return parts;
}

export function questionOf(asked: Asked): string {
  const parts = chosen(asked).toString();
  return parts === "" ? "" : `?${parts}`;
}

export function writeFound(asked: Asked): string {
  const parts = chosen(asked);
  if (asked.at !== null) parts.set("at", String(asked.at));
  if (asked.at !== null && asked.by !== null) parts.set("by", asked.by);
  return parts.toString();
}

/** What cannot be read is left out. */
export function readFound(written: string): Asked {
  const parts = new URLSearchParams(written);
  const failed = parts.get("failed");
  const order = parts.get("order");
  return {
    method: parts.get("method"),
    failed: failed === "true" ? true : failed === "false" ? false : null,
    search: parts.get("search") ?? "",
    metric: parts.get("metric"),
    order: order === "best" || order === "worst" ? order : "data",
    page: whole(parts.get("page")) ?? 0,
    at: whole(parts.get("at")),
    by: parts.get("by"),
  };
}

function whole(written: string | null): number | null {
  return written !== null && /^\d{1,7}$/.test(written) ? Number(written) : null;
}
