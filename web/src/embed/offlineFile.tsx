/** Start of an offline file: mounts the workbench above the static page, which is folded but kept. */

import { createRoot } from "react-dom/client";

import type { FileData } from "../source/fileData";
import { createAddressStore, createMemoryStore } from "../state/store";
import { DEFAULT } from "../state/state";
import { FilePage } from "./FilePage";

/** Mount the workbench of an offline file. */
export function mountFile(page: Document, fileData: FileData): void {
  const root = page.createElement("div");
  page.body.prepend(root);
  page.body.classList.add("whence-file");
  foldStaticPage(page);
  // A frame without an address cannot keep the state in it.
  const addressed = /^(file|https?):$/.test(page.location.protocol);
  const store = addressed ? createAddressStore(window) : createMemoryStore(DEFAULT);
  createRoot(root).render(<FilePage fileData={fileData} store={store} title={page.title} />);
}

/** Fold the static page: tables and provenance. */
function foldStaticPage(page: Document): void {
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
