/** Menu of the methods, with a link to the card of the chosen one. */

import { useMethods } from "../explain/useMethods";
import { HelpLink } from "./HelpLink";

interface Props {
  readonly value: string;
  readonly onChange: (method: string) => void;
}

/** Choose one method. */
export function MethodChoice({ value, onChange }: Props) {
  const names = useMethods();
  return (
    <span className="method-choice">
      <label>
        Method{" "}
        <select value={value} onChange={(event) => onChange(event.target.value)}>
          {(names.includes(value) ? names : [value, ...names]).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>{" "}
      <HelpLink kind="method" name={value}>
        what is it?
      </HelpLink>
    </span>
  );
}
