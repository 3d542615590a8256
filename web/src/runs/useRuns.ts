/** The list of runs, asked for again and again: others write them meanwhile. */

import { useEffect } from "react";

import type { Runs } from "../api/types";
import { useServer } from "../shell/context";
import { type Asked, useAsked } from "../shell/useAsked";
import { isAtWork } from "./told";

const SOON = 3000; // milliseconds, while something is at work
const LATER = 15_000;

export function useRuns(): Asked<Runs> {
  const { source, session } = useServer();
  const asked = useAsked<Runs>(`runs ${session.started}`, (asking) => source.runs(asking));
  const { value, pending, again } = asked;
  const wait = value?.runs.some(isAtWork) ? SOON : LATER;
  const idle = pending || value?.folder === null;
  useEffect(() => {
    if (idle) return;
    const look = (): void => {
      // A page that nobody sees need not know.
      if (!document.hidden) again();
    };
    const timer = window.setInterval(look, wait);
    document.addEventListener("visibilitychange", look);
    return () => {
      window.clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [idle, wait, again]);
  return asked;
}
