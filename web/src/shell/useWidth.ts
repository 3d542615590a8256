/** The width that a picture has, in whole pixels, followed as the page changes. */

import { type RefCallback, useCallback, useState } from "react";

export function useWidth(first = 600): readonly [ref: RefCallback<HTMLElement>, width: number] {
  const [width, setWidth] = useState(first);
  const ref = useCallback((element: HTMLElement | null) => {
    if (!element || typeof ResizeObserver === "undefined") return undefined;
    const measure = (): void => {
      const found = Math.floor(element.clientWidth);
      if (found > 0) setWidth(found);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}
