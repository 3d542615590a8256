/** Texts of the runs page: state, progress, age and names of a run, and URLs of its report and files. */

import type { RunSummary } from "../api/types";
import { formatCount, formatWhole } from "../shell/numberFormat";

/** Seconds without a sign of life after which an unfinished run counts as interrupted. */
const SILENCE = 120;

/** Format the state of a run. */
export function formatState({ state, quiet }: Pick<RunSummary, "state" | "quiet">): string {
  if (state !== "running") return state;
  return quiet !== null && quiet < SILENCE ? "running" : "unfinished";
}

/** Whether a run is in progress. */
export function isRunning(run: Pick<RunSummary, "state" | "quiet">): boolean {
  return formatState(run) === "running";
}

/** Format the rows done, of the total where it is known. */
export function formatProgress({ done, total }: Pick<RunSummary, "done" | "total">): string {
  if (total === null) return formatWhole(done);
  return done === total ? formatWhole(done) : `${formatWhole(done)} of ${formatWhole(total)}`;
}

/** Format the time since the last change, such as "3 min ago". */
export function formatAgo(quiet: number | null): string {
  if (quiet === null) return "–";
  if (quiet < 5) return "just now";
  if (quiet < 60) return `${Math.round(quiet)} s ago`;
  if (quiet < 3600) return `${Math.round(quiet / 60)} min ago`;
  if (quiet < 48 * 3600) return `${Math.round(quiet / 3600)} h ago`;
  return `${formatCount(Math.round(quiet / 86400), "day")} ago`;
}

/** Format a few names, and the number of others. */
export function formatNames(names: readonly string[], most = 3): string {
  if (names.length === 0) return "–";
  const few = names.slice(0, most).join(", ");
  return names.length > most ? `${few} + ${names.length - most}` : few;
}

/** Build the URL of a run's report or file. */
export function buildRunUrl(run: string, part: string, format?: string): string {
  return `/api/runs/${encodeURIComponent(run)}/${part}${format === undefined ? "" : `?format=${format}`}`;
}
