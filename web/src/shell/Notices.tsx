/** Notices for the whole page: server unreachable, unreadable link. */

interface Props {
  readonly away: boolean;
  readonly problems: readonly string[];
  readonly onDismiss: () => void;
}

/** Show the notices. */
export function Notices({ away, problems, onDismiss }: Props) {
  return (
    <>
      {away && (
        <div className="notice" role="alert">
          The server does not answer; trying again. What you asked for is asked again when it is back.
        </div>
      )}
      {problems.length > 0 && (
        <div className="notice" role="status">
          <span>{problems.join(" ")}</span>
          <button type="button" className="small" onClick={onDismiss}>
            Understood
          </button>
        </div>
      )}
    </>
  );
}
