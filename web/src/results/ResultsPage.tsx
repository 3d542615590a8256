/** Results page: saved results by kind, file upload, and the open result's report in a frame. */

import { useState } from "react";

import type { Results } from "../api/types";
import { FileDrop } from "../shell/FileDrop";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/pageContext";
import { useRequest } from "../shell/useRequest";
import { useLinkDefaults } from "../shell/useLinkDefaults";
import { COMMANDS, formatKind, countKinds, buildPageUrl } from "./resultKinds";
import "../shell/parts.css";
import "./results.css";

type StoredResult = Results["results"][number];

/** Show the list of results and the report that is open. */
export function ResultsPage() {
  const { source, session, state, update, announce } = useServer();
  const request = useRequest(`results ${session.started}`, (options) => source.results(options));
  const [kind, setKind] = useState<string | null>(null);
  const result = request.value?.results ?? [];
  const openResult = result.filter((each) => kind === null || each.kind === kind);
  // The first result is the default; a link to a missing one says so.
  const open =
    result.find(({ id }) => id === state.result) ?? (state.result === null ? openResult[0] : null) ?? null;
  useLinkDefaults(open ? { result: open.id } : {});
  const kinds = countKinds(result);
  return (
    <div className={open ? "results-page with-list open" : "results-page with-list"}>
      <nav aria-label="Stored results">
        <h2>Results</h2>
        {kinds.length > 1 && (
          <label className="kinds">
            Kind{" "}
            <select
              value={kind ?? ""}
              onChange={({ target }) => setKind(target.value === "" ? null : target.value)}
            >
              <option value="">all ({result.length})</option>
              {kinds.map(([name, number]) => (
                <option key={name} value={name}>
                  {formatKind(name)} ({number})
                </option>
              ))}
            </select>
          </label>
        )}
        <ul>
          {openResult.map((each) => (
            <li key={each.id}>
              <button
                type="button"
                className="choice"
                aria-current={each.id === open?.id ? "true" : undefined}
                onClick={() => update({ result: each.id }, "push")}
              >
                <span>
                  <strong>{formatKind(each.kind)}</strong> <span className="dim">{each.model}</span>
                </span>
                <span className="summary">{each.summary}</span>
                <span className="dim">
                  {each.name}
                  {each.changed !== null && ` · ${formatDay(each.changed)}`}
                </span>
              </button>
            </li>
          ))}
        </ul>
        {request.value?.problems.map((problem) => (
          <p key={problem} className="note">
            {problem}
          </p>
        ))}
        <FileDrop
          instead="Name the file with --results when you start the server."
          label="Add a file"
          hint="The JSON that whence wrote, with --json or save()."
          accept=".json"
          most={session.limits.upload}
          take={async (file, options) => {
            const added = await source.addResult(file, options);
            request.retry();
            update({ result: added.id }, "push");
            announce(`${formatKind(added.kind)} added: ${added.name}`);
          }}
        />
      </nav>
      <div className="result">
        {request.fault && <FaultNote fault={request.fault} onRetry={request.retry} />}
        {open ? (
          <Report result={open} />
        ) : (
          !request.fault && <EmptyNote pending={request.value === null} any={result.length > 0} />
        )}
      </div>
    </div>
  );
}

function Report({ result }: { readonly result: StoredResult }) {
  const [loaded, setLoaded] = useState<string | null>(null);
  const title = `${formatKind(result.kind)}: ${result.name}`;
  return (
    <>
      <header>
        <h1>{title}</h1>
        <p className="dim">{result.model}</p>
        <a href={buildPageUrl(result.id)} target="_blank" rel="noreferrer">
          Open alone
        </a>
      </header>
      {loaded !== result.id && <p className="empty">Loading the report …</p>}
      {/* A report has no script, and could not run one here. */}
      <iframe
        key={result.id}
        title={title}
        src={buildPageUrl(result.id)}
        sandbox=""
        onLoad={() => setLoaded(result.id)}
      />
    </>
  );
}

interface EmptyNoteProps {
  readonly pending: boolean;
  readonly any: boolean; // true where results exist, but not the one of the link
}

function EmptyNote({ pending, any }: EmptyNoteProps) {
  if (pending) return <p className="empty">Looking for stored results …</p>;
  if (any) {
    return (
      <div className="empty large">
        <h1>That result is not here</h1>
        <p>The link names one that this server does not have. Add its file again.</p>
      </div>
    );
  }
  return (
    <div className="empty large">
      <h1>No results yet</h1>
      <p>Long work is done on the command line and kept as a file; add it here to read it.</p>
      <dl className="commands">
        {COMMANDS.map(({ words, command }) => (
          <div key={command}>
            <dt>{words}</dt>
            <dd>
              <code>{command}</code>
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function formatDay(changed: string): string {
  return changed.slice(0, 16).replace("T", " ");
}
