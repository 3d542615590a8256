/** A table as a file. */

import { csv } from "../render/csv";
import type { Table } from "../render/scene";
import { download } from "./download";

interface Props {
  readonly name: string; // of the file
  readonly caption: string;
  readonly table: Table;
}

export function CsvButton({ name, caption, table }: Props) {
  const save = (): void =>
    download(`whence-${name}.csv`, new Blob([csv(table, caption)], { type: "text/csv" }));
  return (
    <button type="button" className="small" data-csv={name} aria-label={`CSV: ${name}`} onClick={save}>
      CSV
    </button>
  );
}
