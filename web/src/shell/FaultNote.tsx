/** What went wrong, and what to do about it. */

import type { Fault } from "../api/types";

interface Props {
  readonly fault: Fault;
  readonly onAgain?: () => void;
}

export function FaultNote({ fault, onAgain }: Props) {
  return (
    <div className="fault" role="alert">
      <p>
        <strong>{fault.message}</strong>
      </p>
      {fault.hint && <p>{fault.hint}</p>}
      {onAgain && (
        <button type="button" className="small" onClick={onAgain}>
          Try again
        </button>
      )}
    </div>
  );
}
