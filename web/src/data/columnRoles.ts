/** Which columns of a file are read, and what is asked for when one of them is changed. */

import type { DataSet, Fault } from "../api/types";
import type { components } from "../api/schema.gen";

export type ColumnsAsked = components["schemas"]["ColumnsAsked"];
/** The columns of a table and its first rows, as a refusal brings them. */
export interface TableStart {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}
/** A file that is here, and of which the columns have to be chosen before it can be read. */
export interface Unread {
  readonly name: string;
  readonly message: string;
  readonly table: TableStart;
}

export const ROLES = ["text", "pair", "label"] as const;
export type Role = (typeof ROLES)[number];

/** The others stay as they are, except one that was the same column. None is written "": null would be guessed. */
export function columnsAsked(set: DataSet, role: Role, column: string | null): ColumnsAsked {
  const kept = (other: Role): string | null => (set[other] === column ? null : set[other]);
  const wanted = { text: kept("text"), pair: kept("pair"), label: kept("label"), [role]: column };
  return { text: wanted.text, pair: wanted.pair ?? "", label: wanted.label ?? "" };
}

/** What was clicked, as the server takes it. A second text is none where none was chosen; labels are guessed. */
export function asColumns(
  chosen: Readonly<Partial<Record<Role, number>>>,
  columns: readonly string[],
): ColumnsAsked {
  const named = (role: Role): string | null => {
    const column = chosen[role];
    return column === undefined ? null : (columns[column] ?? null);
  };
  return { text: named("text"), pair: named("pair") ?? "", label: named("label") };
}

/** What there is to choose from, where a file was refused for its columns; null for any other refusal. */
export function unreadOf(name: string, fault: Fault | null | undefined): Unread | null {
  const { table } = (fault ?? {}) as { readonly table?: TableStart | null };
  return fault && table ? { name, message: fault.message, table } : null;
}

/** The same of a data set that the server was started with. */
export function unreadSet(set: DataSet): Unread | null {
  return unreadOf(set.name, (set as { readonly problem?: Fault | null }).problem);
}
