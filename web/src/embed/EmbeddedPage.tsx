/** What a page needs around it, without a server: the state, a theme, a voice. */

import { type ReactNode, useMemo, useSyncExternalStore } from "react";

import type { Session } from "../api/types";
import { ComparePage } from "../compare/ComparePage";
import { Workbench } from "../explain/Workbench";
import { ErrorBoundary } from "../shell/ErrorBoundary";
import { FaultNote } from "../shell/FaultNote";
import { useLive } from "../shell/Live";
import { type Page, PageContext } from "../shell/context";
import { withMethods } from "../shell/resolved";
import { useAsked } from "../shell/useAsked";
import type { Source } from "../source/source";
import type { Store } from "../state/store";
import { useHostTheme } from "./useHostTheme";

interface Props {
  readonly source: Source;
  readonly store: Store;
  readonly root?: HTMLElement; // in a document that is not all ours
  readonly onSelection?: Page["onSelection"];
  readonly children?: ReactNode;
}

export function Embedded({ source, store, root, onSelection, children }: Props) {
  const Body = root ? "div" : "main"; // in a notebook the main thing is the notebook
  const state = useSyncExternalStore(store.subscribe, store.get);
  const theme = useHostTheme();
  const [announce, live] = useLive();
  const session = useAsked<Session>("session", (asking) => source.session(asking));
  const page = useMemo(
    () =>
      session.value && {
        source,
        session: session.value,
        state: withMethods(state, session.value),
        update: store.update,
        settle: store.settle,
        linked: store.linked,
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
      {session.fault && <FaultNote fault={session.fault} onAgain={session.again} />}
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
