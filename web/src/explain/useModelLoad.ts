/** Hook that loads a model before its first request: its task and fields are known only then. */

import { useEffect } from "react";

import type { ModelEntry } from "../api/types";
import { isServer, usePage } from "../shell/pageContext";

/** Load the model if needed and return whether it is known; a failure shows up in the request itself. */
export function useModelLoad(entry: ModelEntry | undefined): boolean {
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
