/** List of the data sets, and a drop area for another file. */

import type { DataSet } from "../api/types";
import { FileDrop } from "../shell/FileDrop";
import { formatCount } from "../shell/numberFormat";
import { useServer } from "../shell/pageContext";
import { SourceError } from "../source/source";
import { type UnreadFile, parseUnreadFile, parseUnreadDataSet } from "./columnRoles";

interface Props {
  readonly sets: readonly DataSet[];
  readonly chosen: string | null;
  readonly onChoose: (id: string) => void;
  readonly onBrought: (uploaded: DataSet) => void;
  readonly onUnread: (file: File, unread: UnreadFile) => void; // its columns must be chosen
}

/** Show the data sets and upload a file that is dropped. */
export function DataSetList({ sets, chosen, onChoose, onBrought, onUnread }: Props) {
  const { source, session } = useServer();
  return (
    <nav className="data-list" aria-label="Data sets">
      <h2>Data sets</h2>
      {sets.length > 0 && (
        <ul>
          {sets.map((set) => (
            <li key={set.id}>
              <button
                type="button"
                className="choice"
                aria-current={set.id === chosen ? "true" : undefined}
                onClick={() => onChoose(set.id)}
              >
                <span>{set.name}</span>
                <span className="dim">
                  {parseUnreadDataSet(set) ? "columns to be chosen" : formatCount(set.rows, "row")}
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
      <FileDrop
        label="Bring a file"
        hint="TSV or CSV with a header, JSON lines, Parquet, or plain text with one example a line; also as .gz."
        accept=".tsv,.csv,.txt,.jsonl,.parquet,.gz"
        most={session.limits.upload}
        take={(file, options) =>
          source.uploadData(file, options).then(onBrought, (error: unknown) => {
            const unread = error instanceof SourceError ? parseUnreadFile(file.name, error.fault) : null;
            if (unread === null) throw error;
            onUnread(file, unread);
          })
        }
      />
    </nav>
  );
}
