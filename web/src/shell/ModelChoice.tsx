/** One of the server's models. */

import { usePage } from "./context";
import { shortName } from "./names";

interface Props {
  readonly label: string;
  readonly value: string;
  readonly onChange: (id: string) => void;
}

export function ModelChoice({ label, value, onChange }: Props) {
  const { session } = usePage();
  const known = session.models.some(({ id }) => id === value);
  return (
    <label className="model-choice">
      {label}{" "}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {!known && <option value={value}>{value === "" ? "none" : `${value} (not here)`}</option>}
        {session.models.map(({ id, name, state }) => (
          <option key={id} value={id} title={name}>
            {shortName(id, session)}
            {state === "failed" && " (failed)"}
          </option>
        ))}
      </select>
    </label>
  );
}
