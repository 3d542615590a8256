/** Short model names: the last part of the path where that is unique. */

import type { Session } from "../api/types";

/** Shorten a model's name. */
export function shortenModelName(id: string, session: Pick<Session, "models">): string {
  const name = session.models.find((model) => model.id === id)?.name ?? id;
  const last = takeLastPart(name);
  const same = session.models.filter((model) => takeLastPart(model.name) === last);
  return same.length > 1 ? name : last;
}

function takeLastPart(name: string): string {
  return (
    name
      .replace(/[/\\]+$/, "")
      .split(/[/\\]/)
      .at(-1) || name
  );
}
