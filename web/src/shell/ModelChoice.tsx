/** Menu of the server's models, with a field for another where that is allowed. */

import { useState } from "react";

import { ModelLoader } from "./ModelLoader";
import { isServer, usePage } from "./pageContext";
import { shortenModelName } from "./modelNames";

interface Props {
  readonly label: string;
  readonly value: string;
  readonly onChange: (id: string) => void;
}

// Value of the option that opens a field; no model has this id.
const ANOTHER = "\n";

/** Choose one model. */
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
              {shortenModelName(id, session)}
              {state === "failed" && " (failed)"}
            </option>
          ))}
          {session.allow_load && isServer(source) && <option value={ANOTHER}>Load another model …</option>}
        </select>
      </label>
      {loading && (
        <ModelLoader
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
