/** App: frame of the six pages, with session, navigation, link button, theme switch, notices and polling. */

import { type ReactElement, useEffect, useMemo, useState, useSyncExternalStore } from "react";

import type { Session } from "../api/types";
import { ComparePage } from "../compare/ComparePage";
import { DataPage } from "../data/DataPage";
import { Workbench } from "../explain/Workbench";
import { HelpPage } from "../help/HelpPage";
import { ResultsPage } from "../results/ResultsPage";
import { RunsPage } from "../runs/RunsPage";
import type { HttpSource } from "../source/httpSource";
import { PAGES, listNames } from "../state/choices";
import type { PageName, ViewState } from "../state/state";
import type { Store } from "../state/store";
import { formatUrl } from "../state/url";
import { ErrorBoundary } from "./ErrorBoundary";
import { FaultNote } from "./FaultNote";
import { useAnnouncer } from "./useAnnouncer";
import { Notices } from "./Notices";
import { PageContext } from "./pageContext";
import { copyLink } from "./copyLink";
import { resolveDefaults, resolveMethods } from "./stateDefaults";
import { useRequest } from "./useRequest";
import { type ThemeChoice, useTheme } from "./useTheme";

const ROUTES: Readonly<Record<PageName, () => ReactElement>> = {
  explain: () => <Workbench />,
  compare: () => <ComparePage />,
  data: () => <DataPage />,
  results: () => <ResultsPage />,
  runs: () => <RunsPage />,
  help: () => <HelpPage />,
};

interface Props {
  readonly source: HttpSource;
  readonly store: Store;
}

/** Load the session and show the page of the state. */
export function App({ source, store }: Props) {
  const state = useSyncExternalStore(store.subscribe, store.get);
  const problems = useSyncExternalStore(store.subscribe, store.problems);
  const { theme, choice, setChoice } = useTheme();
  const [announce, live] = useAnnouncer();
  const [read, setRead] = useState<readonly string[] | null>(null);
  const session = useRequest<Session>("session", (options) => source.session(options));
  const away = useServerAbsence(source, session.retry);
  useModelPolling(session.value, session.retry);
  useEffect(() => {
    document.title = `${PAGES[state.page]} · whence`;
  }, [state.page]);
  useEffect(() => {
    if (session.value) store.addDefaults(resolveDefaults(state, session.value));
  }, [store, state, session.value]);
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
        refresh: session.retry,
      },
    [source, session.value, session.retry, state, store, theme, announce],
  );
  return (
    <div className="whence-app" data-theme={theme.name}>
      <a className="skip" href="#main" onClick={skipToContent}>
        To the content
      </a>
      <header className="bar">
        <strong className="brand">whence</strong>
        <Navigation state={state} />
        <span className="push" />
        <LinkButton state={state} linked={store.getLinkState} announce={announce} />
        <ThemeSwitch choice={choice} onChoice={setChoice} />
      </header>
      <Notices away={away} problems={problems === read ? [] : problems} onDismiss={() => setRead(problems)} />
      <main id="main" tabIndex={-1}>
        {session.fault && <FaultNote fault={session.fault} onRetry={session.retry} />}
        {page ? (
          <PageContext.Provider value={page}>
            <ErrorBoundary about={state.page}>{ROUTES[state.page]()}</ErrorBoundary>
          </PageContext.Provider>
        ) : (
          !session.fault && <p className="dim">Asking the server what it has …</p>
        )}
      </main>
      {live}
    </div>
  );
}

function Navigation({ state }: { readonly state: ViewState }) {
  return (
    <nav aria-label="Pages">
      {listNames(PAGES).map((name) => (
        <a
          key={name}
          href={formatUrl({ ...state, page: name })}
          aria-current={state.page === name ? "page" : undefined}
        >
          {PAGES[name]}
        </a>
      ))}
    </nav>
  );
}

function LinkButton({
  state,
  linked: getLinkState,
  announce,
}: {
  readonly state: ViewState;
  readonly linked: () => ViewState;
  readonly announce: (text: string) => void;
}) {
  const [copied, setCopied] = useState<ViewState | null>(null);
  const copy = async (): Promise<void> => {
    announce(await copyLink(getLinkState()));
    setCopied(state);
  };
  return (
    <button type="button" className="small" onClick={() => void copy()}>
      {copied === state ? "Link copied" : "Copy link"}
    </button>
  );
}

const THEMES: readonly ThemeChoice[] = ["auto", "light", "dark"];

function ThemeSwitch({
  choice,
  onChoice,
}: {
  readonly choice: ThemeChoice;
  readonly onChoice: (choice: ThemeChoice) => void;
}) {
  return (
    <label className="theme">
      <span className="unseen">Theme</span>
      <select
        value={choice}
        onChange={(event) => onChoice(THEMES.find((each) => each === event.target.value) ?? "auto")}
      >
        {THEMES.map((each) => (
          <option key={each} value={each}>
            {each === "auto" ? "theme: auto" : each}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Jump to the content without the address, which belongs to the state. */
function skipToContent(event: { preventDefault: () => void }): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function useServerAbsence(source: HttpSource, onBack: () => void): boolean {
  const [away, setAway] = useState(false);
  useEffect(
    () =>
      source.watch((health) => {
        setAway(health === "away");
        if (health === "here") onBack();
      }),
    [source, onBack],
  );
  return away;
}

/** Poll the session while models are loading, which happens on first use. */
function useModelPolling(session: Session | null, retry: () => void): void {
  const first = session?.models[0];
  const busy = session?.models.some(({ state }) => state === "loading") || first?.state === "waiting";
  useEffect(() => {
    if (!busy) return;
    const timer = window.setTimeout(retry, 2000);
    return () => window.clearTimeout(timer);
  }, [session, busy, retry]);
}
