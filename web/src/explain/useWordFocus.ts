/** Hook for keyboard shortcuts on words: token of the focused word, and focus moved to the text strip. */

import { type RefObject, useCallback } from "react";

import type { Flow } from "../api/types";
import { type TokenizedText, findTracedToken, listFeatures } from "./textFeatures";

interface WordFocus {
  readonly getFocus: () => number | null;
  readonly focusWords: () => void; // focuses the first word; from there the strip handles the keys
}

/** Return getters and setters of the focus among the words of a text. */
export function useWordFocus(
  place: RefObject<HTMLElement | null>,
  explanations: TokenizedText | null,
  flow: Flow | null,
  asWords: boolean,
): WordFocus {
  const focused = useCallback(() => {
    const index =
      document.activeElement instanceof HTMLElement ? document.activeElement.dataset["unit"] : undefined;
    if (index === undefined || !explanations) return null;
    const feature = listFeatures(explanations, asWords)[Number(index)];
    return feature ? findTracedToken(feature, flow) : null;
  }, [explanations, flow, asWords]);
  const toWords = useCallback(() => {
    place.current?.querySelector<HTMLElement>(".strip button.unit[tabindex='0']")?.focus();
  }, [place]);
  return { getFocus: focused, focusWords: toWords };
}
