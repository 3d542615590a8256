/** Column roles (text, second text, label): requests that change them, and previews of files not read yet. */

import type { DataSet, Fault } from "../api/types";
import type { components } from "../api/schema.gen";

export type ColumnsRequest = components["schemas"]["ColumnsRequest"];
/** Columns and first rows of a table, as a refusal carries them. */
export interface TablePreview {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}
/** File whose columns must be chosen before it can be read. */
export interface UnreadFile {
  readonly name: string;
  readonly message: string;
  readonly table: TablePreview;
}

export const ROLES = ["text", "pair", "label"] as const;
export type Role = (typeof ROLES)[number];

/** Request the same columns with one changed. No column is "": the server guesses where it gets null. */
export function changeColumn(set: DataSet, role: Role, column: string | null): ColumnsRequest {
  const keepUnlessSame = (other: Role): string | null => (set[other] === column ? null : set[other]);
  const columns = {
    text: keepUnlessSame("text"),
    pair: keepUnlessSame("pair"),
    label: keepUnlessSame("label"),
    [role]: column,
  };
  return { text: columns.text, pair: columns.pair ?? "", label: columns.label ?? "" };
}

/** Request the columns that were clicked; without a second text that is "", and labels are guessed. */
export function buildColumnsRequest(
  chosen: Readonly<Partial<Record<Role, number>>>,
  columns: readonly string[],
): ColumnsRequest {
  const nameColumn = (role: Role): string | null => {
    const column = chosen[role];
    return column === undefined ? null : (columns[column] ?? null);
  };
  return { text: nameColumn("text"), pair: nameColumn("pair") ?? "", label: nameColumn("label") };
}

/** Read the table preview of a refusal; null for a refusal of another kind. */
export function parseUnreadFile(name: string, fault: Fault | null | undefined): UnreadFile | null {
  const { table } = (fault ?? {}) as { readonly table?: TablePreview | null };
  return fault && table ? { name, message: fault.message, table } : null;
}

/** Read the table preview of a data set that the server was started with. */
export function parseUnreadDataSet(set: DataSet): UnreadFile | null {
  return parseUnreadFile(set.name, (set as { readonly problem?: Fault | null }).problem);
}
