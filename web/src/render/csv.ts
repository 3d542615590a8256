/** A table as CSV (RFC 4180), which no spreadsheet takes for a program. */

import type { Table } from "./scene";

/** The caption goes before the table, in lines that begin with `# `: readers of CSV can be told to pass over these. */
export function csv(table: Table, caption: string): string {
  const rows = [table.columns, ...table.rows];
  const lines = rows.map((row) => row.map(cell).join(","));
  const above = caption ? caption.split(/[\r\n]+/).map((words) => `# ${words}`) : [];
  return [...above, ...lines, ""].join("\r\n");
}

function cell(value: string | number): string {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const harmless = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  // A quoted # begins no comment; half of the tokens of a WordPiece model have one.
  return /[",#\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
