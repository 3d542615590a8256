/** Hook for the run list, polled because other processes write runs meanwhile. */

import { useEffect } from "react";

import type { Runs } from "../api/types";
import { useServer } from "../shell/pageContext";
import { type RequestState, useRequest } from "../shell/useRequest";
import { isRunning } from "./runFormat";

const SOON = 3000; // milliseconds, while a run is in progress
const LATER = 15_000;

/** Request the run list, more often while a run is in progress. */
export function useRuns(): RequestState<Runs> {
  const { source, session } = useServer();
  const request = useRequest<Runs>(`runs ${session.started}`, (options) => source.runs(options));
  const { value, pending, retry } = request;
  const wait = value?.runs.some(isRunning) ? SOON : LATER;
  const idle = pending || value?.folder === null;
  useEffect(() => {
    if (idle) return;
    const poll = (): void => {
      // Hidden pages do not poll.
      if (!document.hidden) retry();
    };
    const timer = window.setInterval(poll, wait);
    document.addEventListener("visibilitychange", poll);
    return () => {
      window.clearInterval(timer);
      document.removeEventListener("visibilitychange", poll);
    };
  }, [idle, wait, retry]);
  return request;
}
