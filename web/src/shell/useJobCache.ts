/** Hook for jobs with a cached outcome, so that opening one row and coming back costs no new job. */

import { useCallback } from "react";

import type { RequestOptions } from "../source/source";
import { useJob, type JobState } from "./useRequest";

// Only the latest outcomes: predictions of 10 000 rows take some megabytes.
const MAX_OUTCOMES = 12;
const OUTCOMES = new Map<string, unknown>();

/** Return the cached outcome of a key, if any. */
export function getCachedOutcome<T>(key: string): T | null {
  return (OUTCOMES.get(key) as T | undefined) ?? null;
}

/** Run a job as useJob does, and cache its outcome. `key` holds all that it depends on, also the server's start. */
export function useJobCache<T>(key: string): JobState<T> {
  const work = useJob<T>(key);
  const { run } = work;
  const keepRun = useCallback(
    (ask: (options: RequestOptions) => Promise<T>) => {
      OUTCOMES.delete(key);
      run(async (options) => {
        const value = await ask(options);
        OUTCOMES.set(key, value);
        for (const oldest of [...OUTCOMES.keys()].slice(0, -MAX_OUTCOMES)) OUTCOMES.delete(oldest);
        return value;
      });
    },
    [key, run],
  );
  return { ...work, run: keepRun, value: work.value ?? getCachedOutcome<T>(key) };
}
