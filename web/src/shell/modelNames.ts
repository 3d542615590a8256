/** Models by the last part of their path, where that is enough to tell them apart. */

import type { Session } from "../api/types";

export function shortName(id: string, session: Pick<Session, "models">): string {
  const name = session.models.find((model) => model.id === id)?.name ?? id;
  const last = lastPart(name);
  const same = session.models.filter((model) => lastPart(model.name) === last);
  return same.length > 1 ? name : last;
}

function lastPart(name: string): string {
  return (
    name
      .replace(/[/\\]+$/, "")
      .split(/[/\\]/)
      .at(-1) || name
  );
}
