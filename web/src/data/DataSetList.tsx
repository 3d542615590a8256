/** The data sets at hand, and a place to bring another one. */

import type { DataSet } from "../api/types";
import { DropFile } from "../shell/DropFile";
import { count } from "../shell/figures";
import { useServer } from "../shell/context";
import { SourceError } from "../source/source";
import { type Unread, unreadOf, unreadSet } from "./columns";

interface Props {
  readonly sets: readonly DataSet[];
  readonly chosen: string | null;
  readonly onChoose: (id: string) => void;
  readonly onBrought: (brought: DataSet) => void;
  readonly onUnread: (file: File, unread: Unread) => void; // its columns have to be chosen
}

export function DataList({ sets, chosen, onChoose, onBrought, onUnread }: Props) {
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
                  {unreadSet(set) ? "columns to be chosen" : count(set.rows, "row")}
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
      <DropFile
        label="Bring a file"
        hint="TSV or CSV with a header, JSON lines, Parquet, or plain text with one example a line; also as .gz."
        accept=".tsv,.csv,.txt,.jsonl,.parquet,.gz"
        most={session.limits.upload}
        take={(file, asking) =>
          source.upload(file, asking).then(onBrought, (error: unknown) => {
            const unread = error instanceof SourceError ? unreadOf(file.name, error.fault) : null;
            if (unread === null) throw error;
            onUnread(file, unread);
          })
        }
      />
    </nav>
  );
}
