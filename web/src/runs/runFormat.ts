/** What the list says of a run, in words. */

import type { StoredRun } from "../api/types";
import { count, grouped } from "../shell/figures";

/** So many seconds without a sign of life, and a run that is not finished counts as interrupted. */
const SILENCE = 120;

export function stateOf({ state, quiet }: Pick<StoredRun, "state" | "quiet">): string {
  if (state !== "running") return state;
  return quiet !== null && quiet < SILENCE ? "running" : "unfinished";
}

export function isAtWork(run: Pick<StoredRun, "state" | "quiet">): boolean {
  return stateOf(run) === "running";
}

export function progressOf({ done, total }: Pick<StoredRun, "done" | "total">): string {
  if (total === null) return grouped(done);
  return done === total ? grouped(done) : `${grouped(done)} of ${grouped(total)}`;
}

/** Such as "3 min ago": the latest first is what matters here, not the hour. */
export function agoOf(quiet: number | null): string {
  if (quiet === null) return "–";
  if (quiet < 5) return "just now";
  if (quiet < 60) return `${Math.round(quiet)} s ago`;
  if (quiet < 3600) return `${Math.round(quiet / 60)} min ago`;
  if (quiet < 48 * 3600) return `${Math.round(quiet / 3600)} h ago`;
  return `${count(Math.round(quiet / 86400), "day")} ago`;
}

/** A few names, and how many more. */
export function fewOf(names: readonly string[], most = 3): string {
  if (names.length === 0) return "–";
  const few = names.slice(0, most).join(", ");
  return names.length > most ? `${few} + ${names.length - most}` : few;
}

export function addressOf(run: string, part: string, against: string | null, format?: string): string {
  const parts = new URLSearchParams();
  if (format !== undefined) parts.set("format", format);
  if (against !== null) parts.set("other", against);
  const query = parts.toString();
  return `/api/runs/${encodeURIComponent(run)}/${part}${query && `?${query}`}`;
}
