/** Page context for an offline file or a notebook cell, around the workbench or the comparison page. */

import { type ReactNode, useMemo, useSyncExternalStore } from "react";

import type { Session } from "../api/types";
import { ComparePage } from "../compare/ComparePage";
import { Workbench } from "../explain/Workbench";
import { ErrorBoundary } from "../shell/ErrorBoundary";
import { FaultNote } from "../shell/FaultNote";
import { useAnnouncer } from "../shell/useAnnouncer";
import { type Page, PageContext } from "../shell/pageContext";
import { resolveMethods } from "../shell/stateDefaults";
import { useRequest } from "../shell/useRequest";
import type { Source } from "../source/source";
import type { Store } from "../state/store";
import { useHostTheme } from "./useHostTheme";

interface Props {
  readonly source: Source;
  readonly store: Store;
  readonly root?: HTMLElement; // element of the page in a document with other content
  readonly onSelection?: Page["onSelection"];
  readonly children?: ReactNode;
}

/** Provide the page context for a file or a notebook, and show the workbench. */
export function EmbeddedPage({ source, store, root, onSelection, children }: Props) {
  const Body = root ? "div" : "main"; // in a notebook, <main> is the notebook's
  const state = useSyncExternalStore(store.subscribe, store.get);
  const theme = useHostTheme();
  const [announce, live] = useAnnouncer();
  const session = useRequest<Session>("session", (options) => source.session(options));
  const page = useMemo(
    () =>
      session.value && {
        source,
        session: session.value,
        state: resolveMethods(state, session.value),
        update: store.update,
        addDefaults: store.addDefaults,
        getLinkState: store.getLinkState,
        theme,
        announce,
        ...(root ? { root } : {}),
        ...(onSelection ? { onSelection } : {}),
      },
    [source, session.value, state, store, theme, announce, root, onSelection],
  );
  return (
    <div className="whence-app embedded" data-theme={theme.name}>
      {children}
      {session.fault && <FaultNote fault={session.fault} onRetry={session.retry} />}
      {page && (
        <PageContext.Provider value={page}>
          <ErrorBoundary about={state.page}>
            <Body>{state.page === "compare" ? <ComparePage /> : <Workbench />}</Body>
          </ErrorBoundary>
        </PageContext.Provider>
      )}
      {live}
    </div>
  );
}
