/** One polite voice for all that happens on the page. */

import { type ReactElement, useCallback, useRef } from "react";

export function useLive(): readonly [announce: (text: string) => void, element: ReactElement] {
  const region = useRef<HTMLDivElement>(null);
  const announce = useCallback((text: string) => {
    if (region.current) region.current.textContent = text;
  }, []);
  return [announce, <div key="live" ref={region} className="unseen" role="status" aria-live="polite" />];
}
