/** The link of what is seen, into the clipboard. */

import type { ViewState } from "../state/state";
import { format } from "../state/url";

/** Returns what to tell: browsers may refuse, and then the address bar has it. */
export async function copyLink(state: ViewState): Promise<string> {
  const address = window.location.href.replace(/#.*$/, "") + format(state);
  try {
    await navigator.clipboard.writeText(address);
    return "The link is in the clipboard.";
  } catch {
    return "The clipboard is closed to this page; the link stands in the address bar.";
  }
}
