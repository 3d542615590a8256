/** Puts into the link what is shown where the state leaves it open. */

import { useEffect } from "react";

import type { ViewState } from "../state/state";
import { usePage } from "./context";

export function useSettled(shown: Partial<ViewState>): void {
  const { state, settle } = usePage();
  const key = JSON.stringify(shown);
  useEffect(() => {
    // The state is among the reasons: each change of it forgets what was settled for the one before.
    settle?.(JSON.parse(key) as Partial<ViewState>);
  }, [settle, state, key]);
}
