/** One of the methods, as the help page lists them. */

import { useMethods } from "../explain/useMethods";

interface Props {
  readonly value: string;
  readonly onChange: (method: string) => void;
}

export function MethodChoice({ value, onChange }: Props) {
  const names = useMethods();
  return (
    <label>
      Method{" "}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {(names.includes(value) ? names : [value, ...names]).map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
