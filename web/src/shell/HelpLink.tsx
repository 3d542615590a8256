/** Link from a name to its help card; plain text where there is no help page. */

import { type ReactNode, useContext } from "react";

import type { Card } from "../api/types";
import { DEFAULT } from "../state/state";
import { formatUrl } from "../state/url";
import { PageContext, isServer } from "./pageContext";

interface Props {
  readonly kind: Card["kind"];
  readonly name: string;
  readonly children?: ReactNode; // replaces the name
}

/** Link a name to its card. */
export function HelpLink({ kind, name, children = name }: Props) {
  const page = useContext(PageContext);
  if (!page || !isServer(page.source)) return <>{children}</>;
  const target = { page: "help", card: `${kind}:${name}` } as const;
  return (
    <a
      className="help-link"
      href={formatUrl({ ...DEFAULT, ...target })}
      title={`The card of ${name}`}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab needs only the card
        event.preventDefault();
        page.update(target);
      }}
    >
      {children}
    </a>
  );
}
