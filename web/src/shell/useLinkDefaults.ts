/** Hook that adds the page's defaults to the link. */

import { useEffect } from "react";

import type { ViewState } from "../state/state";
import { usePage } from "./pageContext";

/** Add defaults to the link where the state leaves them open. */
export function useLinkDefaults(defaults: Partial<ViewState>): void {
  const { state, addDefaults } = usePage();
  const key = JSON.stringify(defaults);
  useEffect(() => {
    // Depends on the state too: each change of it drops the defaults added before.
    addDefaults?.(JSON.parse(key) as Partial<ViewState>);
  }, [addDefaults, state, key]);
}
