/** Numbers that are asked for, in a component: one at a time, the latest wins, what is left is called off. */

import { useCallback, useEffect, useRef, useState } from "react";

import type { Fault, Job } from "../api/types";
import { type Asking, SourceError } from "../source/source";

export interface Asked<T> {
  readonly value: T | null; // the last answer stays while the next is on its way
  readonly fault: Fault | null;
  readonly pending: boolean;
  readonly again: () => void;
}

/** Asks whenever `key` changes; null asks nothing. Two askings with one key must be the same. */
export function useAsked<T>(key: string | null, ask: (asking: Asking) => Promise<T>): Asked<T> {
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
          setAnswer((old) => ({ key, value: old?.value ?? null, fault: faultOf(error) }));
      },
    );
    return () => control.abort();
  }, [key, round]);
  const again = useCallback(() => {
    setAnswer((old) => (old === null ? null : { ...old, key: "" }));
    setRound((number) => number + 1);
  }, []);
  const current = answer !== null && answer.key === key;
  return {
    value: key === null ? null : (answer?.value ?? null),
    fault: current ? answer.fault : null,
    pending: key !== null && !current,
    again,
  };
}

export interface Working<T> {
  readonly job: Job | null; // while it is queued or runs
  readonly running: boolean;
  readonly value: T | null;
  readonly fault: Fault | null;
  readonly run: (ask: (asking: Asking) => Promise<T>) => void;
  readonly cancel: () => void;
}

/** Long work, begun by a button. What came of it belongs to `key` and is forgotten when that changes. */
export function useJob<T>(key: string): Working<T> {
  const [state, setState] = useState<State<T>>({ key, job: null, running: false, value: null, fault: null });
  const control = useRef<AbortController | null>(null);
  useEffect(() => () => control.current?.abort(), [key]);
  const run = useCallback(
    (ask: (asking: Asking) => Promise<T>) => {
      control.current?.abort();
      const mine = new AbortController();
      control.current = mine;
      const set = (change: Partial<State<T>>): void => {
        if (!mine.signal.aborted) setState((old) => ({ ...old, ...change, key }));
      };
      set({ job: null, running: true, value: null, fault: null });
      ask({ signal: mine.signal, progress: (job) => set({ job }) }).then(
        (value) => set({ job: null, running: false, value }),
        (error: unknown) => set({ job: null, running: false, fault: faultOf(error) }),
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

interface State<T> {
  readonly key: string;
  readonly job: Job | null;
  readonly running: boolean;
  readonly value: T | null;
  readonly fault: Fault | null;
}

/** Any failure in the one shape. */
export function faultOf(error: unknown): Fault {
  if (error instanceof SourceError) return error.fault;
  const message = error instanceof Error ? error.message : String(error);
  return {
    code: "page",
    message: `The page stumbled: ${message}`,
    hint: "Reload it; the link keeps what you see.",
    see: "",
  };
}
