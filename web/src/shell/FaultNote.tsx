/** Note of a fault: message, hint, retry button. */

import type { Fault } from "../api/types";

interface Props {
  readonly fault: Fault;
  readonly onRetry?: () => void;
}

/** Show a fault, and a retry button where there is a handler. */
export function FaultNote({ fault, onRetry }: Props) {
  return (
    <div className="fault" role="alert">
      <p>
        <strong>{fault.message}</strong>
      </p>
      {fault.hint && <p>{fault.hint}</p>}
      {onRetry && (
        <button type="button" className="small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}
