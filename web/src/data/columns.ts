/** Which columns of a file are read, and what is asked for when one of them is changed. */

import type { DataSet } from "../api/types";
import type { components } from "../api/schema.gen";

export type ColumnsAsked = components["schemas"]["ColumnsAsked"];
export const ROLES = ["text", "pair", "label"] as const;
export type Role = (typeof ROLES)[number];

/** The others stay as they are, except one that was the same column. None is written "": null would be guessed. */
export function columnsAsked(set: DataSet, role: Role, column: string | null): ColumnsAsked {
  const kept = (other: Role): string | null => (set[other] === column ? null : set[other]);
  const wanted = { text: kept("text"), pair: kept("pair"), label: kept("label"), [role]: column };
  return { text: wanted.text, pair: wanted.pair ?? "", label: wanted.label ?? "" };
}
