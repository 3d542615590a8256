/** whence's own report, in a frame in which nothing runs, and as files to keep. */

import { useState } from "react";

import type { StoredRun } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/context";
import { useAsked } from "../shell/useAsked";
import { addressOf } from "./told";

interface Props {
  readonly run: StoredRun;
  readonly other: StoredRun | null;
}

const FILES: readonly (readonly [string, string])[] = [
  ["html", "HTML"],
  ["md", "Markdown"],
  ["tex", "LaTeX"],
  ["json", "JSON"],
];

export function RunReport({ run, other }: Props) {
  const { source } = useServer();
  const latest = `${run.version} ${other?.version ?? ""}`;
  // What is read does not change under the eyes: newer results wait until they are asked for.
  const [shown, setShown] = useState(latest);
  const against = other?.id ?? null;
  const page = addressOf(run.id, "page", against);
  const asked = useAsked(`${page} ${shown}`, (asking) =>
    source.runPage(run.id, page.slice(page.indexOf("/page") + 5), asking).then(() => shown),
  );
  const title = other === null ? `Report of ${run.name}` : `${run.name} and ${other.name} compared`;
  return (
    <div className="result">
      <p className="runs-files">
        <a href={page} target="_blank" rel="noreferrer">
          Open alone
        </a>
        <span className="dim">Save as</span>
        {FILES.map(([format, name]) => (
          <a key={format} href={addressOf(run.id, "report", against, format)} download>
            {name}
          </a>
        ))}
        {latest !== shown && (
          <span role="status">
            More was written since.{" "}
            <button type="button" className="small" onClick={() => setShown(latest)}>
              Show it
            </button>
          </span>
        )}
      </p>
      {asked.fault && <FaultNote fault={asked.fault} onAgain={asked.again} />}
      {asked.pending && <p className="empty">Making the report …</p>}
      {/* A report has no script, and could not run one here. */}
      {asked.value !== null && asked.fault === null && (
        <iframe key={asked.value} title={title} src={page} sandbox="" />
      )}
    </div>
  );
}
