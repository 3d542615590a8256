/** A table as CSV (RFC 4180), which no spreadsheet takes for a program. */

import type { Table } from "./scene";

/** The caption goes into the first line, as its only cell; without one the table begins at once. */
export function csv(table: Table, caption: string): string {
  const rows = [table.columns, ...table.rows];
  const lines = rows.map((row) => row.map(cell).join(","));
  return [...(caption ? [cell(caption)] : []), ...lines, ""].join("\r\n");
}

function cell(value: string | number): string {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const harmless = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
