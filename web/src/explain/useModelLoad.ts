/** What a model can be asked is known when it is loaded: one that waits is loaded before it is asked anything. */

import { useEffect } from "react";

import type { ModelEntry } from "../api/types";
import { isServer, usePage } from "../shell/context";

/** Whether the model is known; until then it is on its way, and where it fails, the question says why. */
export function useLoaded(entry: ModelEntry | undefined): boolean {
  const { source, refresh } = usePage();
  const waits = entry?.state === "waiting" || entry?.state === "loading";
  const id = waits && isServer(source) ? entry.id : null;
  useEffect(() => {
    if (id === null || !isServer(source)) return;
    const control = new AbortController();
    source.load(id, { signal: control.signal }).then(
      () => refresh?.(),
      () => {
        if (!control.signal.aborted) refresh?.();
      },
    );
    return () => control.abort();
  }, [source, id, refresh]);
  return id === null;
}
