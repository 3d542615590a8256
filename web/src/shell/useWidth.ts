/** Hook for the width of an element in whole pixels. */

import { type RefCallback, useCallback, useState } from "react";

/** Return a ref and the width of its element, following changes. */
export function useWidth(first = 600): readonly [ref: RefCallback<HTMLElement>, width: number] {
  const [width, setWidth] = useState(first);
  const ref = useCallback((element: HTMLElement | null) => {
    if (!element || typeof ResizeObserver === "undefined") return undefined;
    const measure = (): void => {
      const result = Math.floor(element.clientWidth);
      if (result > 0) setWidth(result);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}
