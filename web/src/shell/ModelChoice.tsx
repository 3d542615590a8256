/** One of the server's models, or, where that is allowed, another one. */

import { useState } from "react";

import { LoadModel } from "./LoadModel";
import { isServer, usePage } from "./context";
import { shortName } from "./names";

interface Props {
  readonly label: string;
  readonly value: string;
  readonly onChange: (id: string) => void;
}

// No model's id: an option that opens a field instead.
const ANOTHER = "\n";

export function ModelChoice({ label, value, onChange }: Props) {
  const { source, session } = usePage();
  const [loading, setLoading] = useState(false);
  const known = session.models.some(({ id }) => id === value);
  const choose = (id: string): void => (id === ANOTHER ? setLoading(true) : onChange(id));
  return (
    <>
      <label className="model-choice">
        {label}{" "}
        <select value={value} onChange={(event) => choose(event.target.value)}>
          {!known && <option value={value}>{value === "" ? "none" : `${value} (not here)`}</option>}
          {session.models.map(({ id, name, state }) => (
            <option key={id} value={id} title={name}>
              {shortName(id, session)}
              {state === "failed" && " (failed)"}
            </option>
          ))}
          {session.allow_load && isServer(source) && <option value={ANOTHER}>Load another model …</option>}
        </select>
      </label>
      {loading && (
        <LoadModel
          onLoaded={(id) => {
            setLoading(false);
            onChange(id);
          }}
          onClose={() => setLoading(false)}
        />
      )}
    </>
  );
}
