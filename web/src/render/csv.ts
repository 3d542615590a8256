/** CSV of a table (RFC 4180), with cells escaped so that no spreadsheet runs them as formulas. */

import type { TableData } from "./scene";

/** Format a table. The caption comes first, in lines that begin with `# `, which CSV readers can skip. */
export function formatCsv(table: TableData, caption: string): string {
  const rows = [table.columns, ...table.rows];
  const lines = rows.map((row) => row.map(formatCell).join(","));
  const above = caption ? caption.split(/[\r\n]+/).map((words) => `# ${words}`) : [];
  return [...above, ...lines, ""].join("\r\n");
}

function formatCell(value: string | number): string {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const harmless = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  // A quoted # starts no comment; half of a WordPiece model's tokens contain one.
  return /[",#\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
