/** Copy of the page's link to the clipboard. */

import type { ViewState } from "../state/state";
import { formatUrl } from "../state/url";

/** Copy the link and return the message to announce; browsers may refuse the clipboard. */
export async function copyLink(state: ViewState): Promise<string> {
  const address = window.location.href.replace(/#.*$/, "") + formatUrl(state);
  try {
    await navigator.clipboard.writeText(address);
    return "The link is in the clipboard.";
  } catch {
    return "The clipboard is closed to this page; the link stands in the address bar.";
  }
}
