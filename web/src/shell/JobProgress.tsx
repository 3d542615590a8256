/** Progress line of a job: state, share done, time left, cancel button. */

import type { Job } from "../api/types";

interface Props {
  readonly job: Job | null; // null: requested, no answer yet
  readonly onCancel: () => void;
}

/** Show the progress of a job. */
export function JobProgress({ job, onCancel }: Props) {
  const share = job && job.total > 0 ? job.done / job.total : undefined;
  return (
    <div className="job">
      <progress aria-label="Progress" max={1} {...(share === undefined ? {} : { value: share })} />
      <span className="dim">{describeJob(job)}</span>
      <button type="button" className="small" onClick={onCancel}>
        Cancel
      </button>
    </div>
  );
}

/** Describe the state of a job in words. */
export function describeJob(job: Job | null): string {
  if (job === null) return "asked";
  if (job.state === "queued" && job.position > 0) {
    return `waits: ${job.position === 1 ? "1 job" : `${job.position} jobs`} before yours`;
  }
  if (job.state === "queued" || job.total === 0) return "begins";
  const left = job.remaining === null ? "" : ` · about ${formatDuration(job.remaining)} left`;
  return `${job.done} of ${job.total}${left}`;
}

function formatDuration(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
