/** Test harness of a page component, with a server that answers from memory. */

import { render } from "@testing-library/react";
import { type ReactElement, useState } from "react";
import { vi } from "vitest";

import type { Session } from "../src/api/types";
import { LIGHT } from "../src/render/theme";
import { PageContext } from "../src/shell/pageContext";
import { resolveMethods } from "../src/shell/stateDefaults";
import { type Server, SourceError } from "../src/source/source";
import { DEFAULT, type ViewState } from "../src/state/state";

export const SESSION: Session = {
  version: "0",
  started: "now",
  models: ["base", "tuned"].map((id) => ({
    id,
    state: "ready",
    name: `/models/${id}`, // path of the folder; links and requests use the id
    kind: null,
    labels: ["neg", "pos"],
    task: null,
    modality: "text" as const,
    zero_shot: false,
    draws: false,
    samples: [],
    pairs: false,
    reads_pairs: false,
    takes_pairs: false,
    layers: 1,
    heads: 1,
    longest: 9,
    attention: null,
    error: null,
  })),
  compare: null,
  data: [],
  samples: [{ text: "a text", pair: null }],
  allow_load: false,
  limits: { characters: 100, upload: 1000, seconds: 1, edges: 100, generated: 50 },
};

export const REFUSAL = new SourceError({
  code: "no",
  message: "It cannot be done.",
  hint: "Do something else.",
  see: "",
});

/** State and announcements of a rendered page. */
export interface RenderedPage {
  readonly state: () => ViewState;
  readonly announced: ReturnType<typeof vi.fn<(text: string) => void>>;
}

/** Render a page whose server has these answers; any other request is refused. */
export function renderPage(
  page: ReactElement,
  answers: Partial<Server>,
  state: Partial<ViewState> = {},
  session = SESSION,
): RenderedPage {
  const refuse = (): Promise<never> => Promise.reject(REFUSAL);
  const source = new Proxy(
    { kind: "server", session: () => Promise.resolve(session), ...answers } as Server,
    {
      get: (known, name) =>
        name in known ? known[name as keyof Server] : name === "reach" ? undefined : refuse,
    },
  );
  const announced = vi.fn<(text: string) => void>();
  let latest: ViewState = { ...DEFAULT, ...state };
  function Frame() {
    const [now, setNow] = useState(latest);
    const update = (change: Partial<ViewState>): void => {
      latest = { ...latest, ...change };
      setNow(latest);
    };
    const value = {
      source,
      session,
      state: resolveMethods(now, session),
      update,
      theme: LIGHT,
      announce: announced,
    };
    return <PageContext.Provider value={value}>{page}</PageContext.Provider>;
  }
  render(<Frame />);
  return { state: () => latest, announced };
}
