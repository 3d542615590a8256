/** Button that downloads a table as CSV. */

import { formatCsv } from "../render/csv";
import type { TableData } from "../render/scene";
import { download } from "./download";

interface Props {
  readonly name: string; // of the file
  readonly caption: string;
  readonly table: TableData;
}

/** Download a table as CSV. */
export function CsvButton({ name, caption, table }: Props) {
  const save = (): void =>
    download(`whence-${name}.csv`, new Blob([formatCsv(table, caption)], { type: "text/csv" }));
  return (
    <button type="button" className="small" data-csv={name} aria-label={`CSV: ${name}`} onClick={save}>
      CSV
    </button>
  );
}
