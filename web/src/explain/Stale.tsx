/** Over what still stands there from before, while another answer is on its way. */

export function Stale({ isOld }: { readonly isOld: boolean }) {
  return isOld ? <p className="stale-note">Of the question before; the new answer is on its way.</p> : null;
}

/** The class of a panel that is dimmed while it is old. */
export function panelClass(name: string, isOld: boolean): string {
  return `panel ${name}${isOld ? " stale" : ""}`;
}
