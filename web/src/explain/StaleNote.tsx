/** Note on a panel that still shows the previous answer while the next is pending. */

/** Show the note while the panel is stale. */
export function StaleNote({ isStale }: { readonly isStale: boolean }) {
  return isStale ? <p className="stale-note">Of the question before; the new answer is on its way.</p> : null;
}

/** Build the class of a panel, dimmed while it is stale. */
export function getPanelClass(name: string, isStale: boolean): string {
  return `panel ${name}${isStale ? " stale" : ""}`;
}
