/** Tells whoever listens what is chosen and shown, when it changes. */

import { useEffect } from "react";

import type { ShownFlow } from "../flow/shown";
import { usePage } from "../shell/context";

export function useSelection(shown: ShownFlow | null): void {
  const { state, onSelection } = usePage();
  const { tokens, head } = state;
  useEffect(() => {
    const edges = (shown?.edges ?? []).map(
      ({ layer, head, source, to }) => [layer, head, source, to] as const,
    );
    onSelection?.({ tokens, edges, head });
  }, [onSelection, shown, tokens, head]);
}
