/** An offline file: its script takes the place of the static page, which stays within reach. */

import { createRoot } from "react-dom/client";

import type { Payload } from "../source/payload";
import { addressStore, memoryStore } from "../state/store";
import { DEFAULT } from "../state/state";
import { FilePage } from "./FilePage";

export function showFile(page: Document, payload: Payload): void {
  const root = page.createElement("div");
  page.body.prepend(root);
  page.body.classList.add("whence-file");
  fold(page);
  // A frame without an address of its own cannot keep the state there.
  const addressed = /^(file|https?):$/.test(page.location.protocol);
  const store = addressed ? addressStore(window) : memoryStore(DEFAULT);
  createRoot(root).render(<FilePage payload={payload} store={store} title={page.title} />);
}

/** Folds the static page away: tables, and where everything comes from. */
function fold(page: Document): void {
  const main = page.querySelector("main.whence");
  if (main === null) return;
  const plain = page.createElement("div");
  plain.className = "whence";
  plain.append(...main.childNodes);
  const details = page.createElement("details");
  details.className = "whence-plain";
  const summary = page.createElement("summary");
  summary.textContent = "The same as text and tables, and where it comes from";
  details.append(summary, plain);
  main.replaceWith(details);
}
