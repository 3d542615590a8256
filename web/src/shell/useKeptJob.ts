/** Long work whose outcome stays while the page is open, so that going to look at one row does not cost the rest. */

import { useCallback } from "react";

import type { Asking } from "../source/source";
import { useJob, type Working } from "./useAsked";

// The last few; a predicted data set of 10 000 rows takes some megabytes.
const MOST = 12;
const kept = new Map<string, unknown>();

/** What came of work of this name, if it is still kept. */
export function keptOutcome<T>(key: string): T | null {
  return (kept.get(key) as T | undefined) ?? null;
}

/** As useJob. `key` names everything that the outcome depends on, the server's start among it. */
export function useKeptJob<T>(key: string): Working<T> {
  const work = useJob<T>(key);
  const { run } = work;
  const keepRun = useCallback(
    (ask: (asking: Asking) => Promise<T>) => {
      kept.delete(key);
      run(async (asking) => {
        const value = await ask(asking);
        kept.set(key, value);
        for (const oldest of [...kept.keys()].slice(0, -MOST)) kept.delete(oldest);
        return value;
      });
    },
    [key, run],
  );
  return { ...work, run: keepRun, value: work.value ?? keptOutcome<T>(key) };
}
