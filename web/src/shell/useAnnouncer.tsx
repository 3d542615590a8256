/** Hook for the page's live region, which announces changes to screen readers. */

import { type ReactElement, useCallback, useRef } from "react";

/** Return a function that announces a text, and the live region. */
export function useAnnouncer(): readonly [announce: (text: string) => void, element: ReactElement] {
  const region = useRef<HTMLDivElement>(null);
  const announce = useCallback((text: string) => {
    if (region.current) region.current.textContent = text;
  }, []);
  return [announce, <div key="live" ref={region} className="unseen" role="status" aria-live="polite" />];
}
