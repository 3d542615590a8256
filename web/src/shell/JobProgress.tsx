/** Long work in one line: where it stands, how far it is, how long it will take, and a way out. */

import type { Job } from "../api/types";

interface Props {
  readonly job: Job | null; // null: asked for, not answered yet
  readonly onCancel: () => void;
}

export function JobLine({ job, onCancel }: Props) {
  const share = job && job.total > 0 ? job.done / job.total : undefined;
  return (
    <div className="job">
      <progress aria-label="Progress" max={1} {...(share === undefined ? {} : { value: share })} />
      <span className="dim">{wordsOf(job)}</span>
      <button type="button" className="small" onClick={onCancel}>
        Cancel
      </button>
    </div>
  );
}

export function wordsOf(job: Job | null): string {
  if (job === null) return "asked";
  if (job.state === "queued" && job.position > 0) {
    return `waits: ${job.position === 1 ? "1 job" : `${job.position} jobs`} before yours`;
  }
  if (job.state === "queued" || job.total === 0) return "begins";
  const left = job.remaining === null ? "" : ` · about ${duration(job.remaining)} left`;
  return `${job.done} of ${job.total}${left}`;
}

function duration(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
