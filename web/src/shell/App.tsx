/** The frame around the six pages. */

import { type ReactElement, useEffect, useMemo, useState, useSyncExternalStore } from "react";

import type { Session } from "../api/types";
import { ComparePage } from "../compare/ComparePage";
import { DataPage } from "../data/DataPage";
import { Workbench } from "../explain/Workbench";
import { HelpPage } from "../help/HelpPage";
import { ResultsPage } from "../results/ResultsPage";
import { RunsPage } from "../runs/RunsPage";
import type { Http } from "../source/http";
import { PAGES, namesOf } from "../state/choices";
import type { PageName, ViewState } from "../state/state";
import type { Store } from "../state/store";
import { format } from "../state/url";
import { ErrorBoundary } from "./ErrorBoundary";
import { FaultNote } from "./FaultNote";
import { useLive } from "./Live";
import { Notices } from "./Notices";
import { PageContext } from "./context";
import { copyLink } from "./link";
import { resolved, withMethods } from "./resolved";
import { useAsked } from "./useAsked";
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
  readonly source: Http;
  readonly store: Store;
}

export function App({ source, store }: Props) {
  const state = useSyncExternalStore(store.subscribe, store.get);
  const problems = useSyncExternalStore(store.subscribe, store.problems);
  const { theme, choice, setChoice } = useTheme();
  const [announce, live] = useLive();
  const [read, setRead] = useState<readonly string[] | null>(null);
  const session = useAsked<Session>("session", (asking) => source.session(asking));
  const away = useAway(source, session.again);
  useLoading(session.value, session.again);
  useEffect(() => {
    document.title = `${PAGES[state.page]} · whence`;
  }, [state.page]);
  useEffect(() => {
    if (session.value) store.settle(resolved(state, session.value));
  }, [store, state, session.value]);
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
        refresh: session.again,
      },
    [source, session.value, session.again, state, store, theme, announce],
  );
  return (
    <div className="whence-app" data-theme={theme.name}>
      <a className="skip" href="#main" onClick={skip}>
        To the content
      </a>
      <header className="bar">
        <strong className="brand">whence</strong>
        <Nav state={state} />
        <span className="push" />
        <LinkButton state={state} linked={store.linked} announce={announce} />
        <ThemeSwitch choice={choice} onChoice={setChoice} />
      </header>
      <Notices away={away} problems={problems === read ? [] : problems} onDismiss={() => setRead(problems)} />
      <main id="main" tabIndex={-1}>
        {session.fault && <FaultNote fault={session.fault} onAgain={session.again} />}
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

function Nav({ state }: { readonly state: ViewState }) {
  return (
    <nav aria-label="Pages">
      {namesOf(PAGES).map((name) => (
        <a
          key={name}
          href={format({ ...state, page: name })}
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
  linked,
  announce,
}: {
  readonly state: ViewState;
  readonly linked: () => ViewState;
  readonly announce: (text: string) => void;
}) {
  const [copied, setCopied] = useState<ViewState | null>(null);
  const copy = async (): Promise<void> => {
    announce(await copyLink(linked()));
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

/** The address belongs to the state, so the jump is made by hand. */
function skip(event: { preventDefault: () => void }): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function useAway(source: Http, onBack: () => void): boolean {
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

/** Models are loaded when they are first needed; until then the server is asked now and then how far it is. */
function useLoading(session: Session | null, again: () => void): void {
  const first = session?.models[0];
  const busy = session?.models.some(({ state }) => state === "loading") || first?.state === "waiting";
  useEffect(() => {
    if (!busy) return;
    const timer = window.setTimeout(again, 2000);
    return () => window.clearTimeout(timer);
  }, [session, busy, again]);
}
