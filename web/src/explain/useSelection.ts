/** Hook that reports pinned tokens, visible edges and open head to the page's listener, such as a notebook. */

import { useEffect } from "react";

import type { VisibleFlow } from "../flow/visibleFlow";
import { usePage } from "../shell/pageContext";

/** Report pinned tokens, visible edges and head when they change. */
export function useSelection(visible: VisibleFlow | null): void {
  const { state, onSelection } = usePage();
  const { tokens, head } = state;
  useEffect(() => {
    const edges = (visible?.edges ?? []).map(
      ({ layer, head, source, to }) => [layer, head, source, to] as const,
    );
    onSelection?.({ tokens, edges, head });
  }, [onSelection, visible, tokens, head]);
}
