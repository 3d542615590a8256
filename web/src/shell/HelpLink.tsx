/** A name that leads to its card on the help page; where there is no such page, the name alone. */

import { type ReactNode, useContext } from "react";

import type { Card } from "../api/types";
import { DEFAULT } from "../state/state";
import { format } from "../state/url";
import { PageContext, isServer } from "./context";

interface Props {
  readonly kind: Card["kind"];
  readonly name: string;
  readonly children?: ReactNode; // in the place of the name
}

export function HelpLink({ kind, name, children = name }: Props) {
  const page = useContext(PageContext);
  if (!page || !isServer(page.source)) return <>{children}</>;
  const target = { page: "help", card: `${kind}:${name}` } as const;
  return (
    <a
      className="help-link"
      href={format({ ...DEFAULT, ...target })}
      title={`The card of ${name}`}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another tab needs the card alone
        event.preventDefault();
        page.update(target);
      }}
    >
      {children}
    </a>
  );
}
