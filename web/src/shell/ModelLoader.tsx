/** Form that loads a model by name, where the server was started with --allow-load. */

import { type KeyboardEvent, useEffect, useRef, useState } from "react";

import type { ModelEntry } from "../api/types";
import { FaultNote } from "./FaultNote";
import { useServer } from "./pageContext";
import { useJob } from "./useRequest";

interface Props {
  readonly onLoaded: (id: string) => void;
  readonly onClose: () => void;
}

/** Load a model by its name or path. */
export function ModelLoader({ onLoaded, onClose }: Props) {
  const { source, announce, refresh } = useServer();
  const [name, setName] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const { run, running, fault, cancel } = useJob<ModelEntry>("load");
  useEffect(() => field.current?.focus(), []);
  const load = (): void => {
    const wanted = name.trim();
    if (wanted === "" || running) return;
    run(async (options) => {
      const entry = await source.load(wanted, options);
      announce(`${entry.name} is loaded.`);
      refresh?.();
      onLoaded(entry.id);
      return entry;
    });
  };
  // It is inside another form, which must not be submitted.
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") onClose();
    if (event.key !== "Enter") return;
    event.preventDefault();
    load();
  };
  return (
    <div className="load-model" role="group" aria-label="Load another model">
      <input
        ref={field}
        type="text"
        aria-label="Name or folder of the model"
        placeholder="a folder, or a name on the Hub"
        spellCheck={false}
        autoComplete="off"
        maxLength={300}
        value={name}
        readOnly={running}
        onChange={(event) => setName(event.target.value)}
        onKeyDown={onKey}
      />
      <button type="button" className="small" disabled={running || name.trim() === ""} onClick={load}>
        Load
      </button>
      <button type="button" className="small" onClick={running ? cancel : onClose}>
        Cancel
      </button>
      {running && (
        <span className="job" role="status">
          <progress aria-label="Loading the model" />
          <span className="dim">Loading; the first time this may take minutes.</span>
        </span>
      )}
      {fault && <FaultNote fault={fault} />}
    </div>
  );
}
