/** Report of a run in a sandboxed frame, and as files to download. */

import { useState } from "react";

import type { RunSummary } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/pageContext";
import { useRequest } from "../shell/useRequest";
import { buildRunUrl } from "./runFormat";

interface Props {
  readonly run: RunSummary;
}

const FILES: readonly (readonly [string, string])[] = [
  ["html", "HTML"],
  ["md", "Markdown"],
  ["tex", "LaTeX"],
  ["json", "JSON"],
];

/** Show the report of a run. */
export function RunReport({ run }: Props) {
  const { source } = useServer();
  const latest = run.version;
  // An open report does not change by itself: newer results wait for a click.
  const [shownVersion, setShownVersion] = useState(latest);
  const page = buildRunUrl(run.id, "page");
  const request = useRequest(`${page} ${shownVersion}`, (options) =>
    source.runPage(run.id, page.slice(page.indexOf("/page") + 5), options).then(() => shownVersion),
  );
  return (
    <div className="result">
      <p className="runs-files">
        <a href={page} target="_blank" rel="noreferrer">
          Open alone
        </a>
        <span className="dim">Save as</span>
        {FILES.map(([format, name]) => (
          <a key={format} href={buildRunUrl(run.id, "report", format)} download>
            {name}
          </a>
        ))}
        {latest !== shownVersion && (
          <span role="status">
            More was written since.{" "}
            <button type="button" className="small" onClick={() => setShownVersion(latest)}>
              Show it
            </button>
          </span>
        )}
      </p>
      {request.fault && <FaultNote fault={request.fault} onRetry={request.retry} />}
      {request.pending && <p className="empty">Making the report …</p>}
      {/* A report has no script, and could not run one here. */}
      {request.value !== null && request.fault === null && (
        <iframe key={request.value} title={`Report of ${run.name}`} src={page} sandbox="" />
      )}
    </div>
  );
}
