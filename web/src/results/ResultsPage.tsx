/** Stored audits, evaluations, comparisons, trust cards and explanations, as whence's own reports show them. */

import { useState } from "react";

import type { Results } from "../api/types";
import { DropFile } from "../shell/DropFile";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/context";
import { useAsked } from "../shell/useAsked";
import { useSettled } from "../shell/useSettled";
import { COMMANDS, kindName, kindsOf, pageOf } from "./stored";
import "../shell/parts.css";
import "./results.css";

type Stored = Results["results"][number];

export function ResultsPage() {
  const { source, session, state, update, announce } = useServer();
  const asked = useAsked(`results ${session.started}`, (asking) => source.results(asking));
  const [kind, setKind] = useState<string | null>(null);
  const stored = asked.value?.results ?? [];
  const shown = stored.filter((each) => kind === null || each.kind === kind);
  // Where nobody has chosen, the first is open; a link that names another one says that it is not here.
  const open =
    stored.find(({ id }) => id === state.result) ?? (state.result === null ? shown[0] : null) ?? null;
  useSettled(open ? { result: open.id } : {});
  const kinds = kindsOf(stored);
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
              <option value="">all ({stored.length})</option>
              {kinds.map(([name, number]) => (
                <option key={name} value={name}>
                  {kindName(name)} ({number})
                </option>
              ))}
            </select>
          </label>
        )}
        <ul>
          {shown.map((each) => (
            <li key={each.id}>
              <button
                type="button"
                className="choice"
                aria-current={each.id === open?.id ? "true" : undefined}
                onClick={() => update({ result: each.id }, "push")}
              >
                <span>
                  <strong>{kindName(each.kind)}</strong> <span className="dim">{each.model}</span>
                </span>
                <span className="summary">{each.summary}</span>
                <span className="dim">
                  {each.name}
                  {each.changed !== null && ` · ${day(each.changed)}`}
                </span>
              </button>
            </li>
          ))}
        </ul>
        {asked.value?.problems.map((problem) => (
          <p key={problem} className="note">
            {problem}
          </p>
        ))}
        <DropFile
          instead="Name the file with --results when you start the server."
          label="Add a file"
          hint="The JSON that whence wrote, with --json or save()."
          accept=".json"
          most={session.limits.upload}
          take={async (file, asking) => {
            const added = await source.addResult(file, asking);
            asked.again();
            update({ result: added.id }, "push");
            announce(`${kindName(added.kind)} added: ${added.name}`);
          }}
        />
      </nav>
      <div className="result">
        {asked.fault && <FaultNote fault={asked.fault} onAgain={asked.again} />}
        {open ? (
          <Report stored={open} />
        ) : (
          !asked.fault && <Nothing pending={asked.value === null} any={stored.length > 0} />
        )}
      </div>
    </div>
  );
}

function Report({ stored }: { readonly stored: Stored }) {
  const [loaded, setLoaded] = useState<string | null>(null);
  const title = `${kindName(stored.kind)}: ${stored.name}`;
  return (
    <>
      <header>
        <h1>{title}</h1>
        <p className="dim">{stored.model}</p>
        <a href={pageOf(stored.id)} target="_blank" rel="noreferrer">
          Open alone
        </a>
      </header>
      {loaded !== stored.id && <p className="empty">Loading the report …</p>}
      {/* A report has no script, and could not run one here. */}
      <iframe
        key={stored.id}
        title={title}
        src={pageOf(stored.id)}
        sandbox=""
        onLoad={() => setLoaded(stored.id)}
      />
    </>
  );
}

interface NothingProps {
  readonly pending: boolean;
  readonly any: boolean; // some are there, and not the one of the link
}

function Nothing({ pending, any }: NothingProps) {
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

function day(changed: string): string {
  return changed.slice(0, 16).replace("T", " ");
}
