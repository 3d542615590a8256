/** The word that has the focus, for keys that mean it. */

import { type RefObject, useCallback } from "react";

import type { Flow } from "../api/types";
import { type Spoken, tracedBy, unitsOf } from "./units";

interface Words {
  readonly focused: () => number | null;
  readonly toWords: () => void; // the way in; once a word has the focus, the strip itself walks
}

export function useWordFocus(
  place: RefObject<HTMLElement | null>,
  explanations: Spoken | null,
  flow: Flow | null,
  asWords: boolean,
): Words {
  const focused = useCallback(() => {
    const index =
      document.activeElement instanceof HTMLElement ? document.activeElement.dataset["unit"] : undefined;
    if (index === undefined || !explanations) return null;
    const unit = unitsOf(explanations, asWords)[Number(index)];
    return unit ? tracedBy(unit, flow) : null;
  }, [explanations, flow, asWords]);
  const toWords = useCallback(() => {
    place.current?.querySelector<HTMLElement>(".strip button.unit[tabindex='0']")?.focus();
  }, [place]);
  return { focused, toWords };
}
