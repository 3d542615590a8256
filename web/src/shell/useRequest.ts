/** Hooks for requests and jobs in components: the latest wins, earlier ones are aborted. */

import { useCallback, useEffect, useRef, useState } from "react";

import type { Fault, Job } from "../api/types";
import { type RequestOptions, SourceError } from "../source/source";

/** State of a request. */
export interface RequestState<T> {
  readonly value: T | null; // the last answer, kept while the next is pending
  readonly fault: Fault | null;
  readonly pending: boolean;
  readonly retry: () => void;
}

/** Send a request whenever `key` changes; null sends none. Equal keys must mean equal requests. */
export function useRequest<T>(
  key: string | null,
  ask: (options: RequestOptions) => Promise<T>,
): RequestState<T> {
  const [answer, setAnswer] = useState<{ key: string; value: T | null; fault: Fault | null } | null>(null);
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  useEffect(() => {
    latest.current = ask;
  });
  useEffect(() => {
    if (key === null) return;
    const control = new AbortController();
    latest.current({ signal: control.signal }).then(
      (value) => {
        if (!control.signal.aborted) setAnswer({ key, value, fault: null });
      },
      (error: unknown) => {
        if (!control.signal.aborted)
          setAnswer((old) => ({ key, value: old?.value ?? null, fault: toFault(error) }));
      },
    );
    return () => control.abort();
  }, [key, round]);
  const retry = useCallback(() => {
    setAnswer((old) => (old === null ? null : { ...old, key: "" }));
    setRound((number) => number + 1);
  }, []);
  const current = answer !== null && answer.key === key;
  return {
    value: key === null ? null : (answer?.value ?? null),
    fault: current ? answer.fault : null,
    pending: key !== null && !current,
    retry,
  };
}

/** State of a job, with its start and cancel functions. */
export interface JobState<T> {
  readonly job: Job | null; // set while it is queued or runs
  readonly running: boolean;
  readonly value: T | null;
  readonly fault: Fault | null;
  readonly run: (ask: (options: RequestOptions) => Promise<T>) => void;
  readonly cancel: () => void;
}

/** Run a job started by a button. The outcome belongs to `key` and is dropped when that changes. */
export function useJob<T>(key: string): JobState<T> {
  const [state, setState] = useState<JobRecord<T>>({
    key,
    job: null,
    running: false,
    value: null,
    fault: null,
  });
  const control = useRef<AbortController | null>(null);
  useEffect(() => () => control.current?.abort(), [key]);
  const run = useCallback(
    (ask: (options: RequestOptions) => Promise<T>) => {
      control.current?.abort();
      const mine = new AbortController();
      control.current = mine;
      const set = (change: Partial<JobRecord<T>>): void => {
        if (!mine.signal.aborted) setState((old) => ({ ...old, ...change, key }));
      };
      set({ job: null, running: true, value: null, fault: null });
      ask({ signal: mine.signal, progress: (job) => set({ job }) }).then(
        (value) => set({ job: null, running: false, value }),
        (error: unknown) => set({ job: null, running: false, fault: toFault(error) }),
      );
    },
    [key],
  );
  const cancel = useCallback(() => {
    control.current?.abort();
    setState((old) => ({ ...old, job: null, running: false }));
  }, []);
  const mine = state.key === key;
  return {
    job: mine ? state.job : null,
    running: mine && state.running,
    value: mine ? state.value : null,
    fault: mine ? state.fault : null,
    run,
    cancel,
  };
}

interface JobRecord<T> {
  readonly key: string;
  readonly job: Job | null;
  readonly running: boolean;
  readonly value: T | null;
  readonly fault: Fault | null;
}

/** Convert any error into a fault. */
export function toFault(error: unknown): Fault {
  if (error instanceof SourceError) return error.fault;
  const message = error instanceof Error ? error.message : String(error);
  return {
    code: "page",
    message: `The page stumbled: ${message}`,
    hint: "Reload it; the link keeps what you see.",
    see: "",
  };
}
