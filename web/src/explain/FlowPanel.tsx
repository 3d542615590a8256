/** How information flowed: controls, the picture, and the line that says what it does not show. */

import { useCallback } from "react";

import type { Flow } from "../api/types";
import { EDGES as READABLE } from "../flow/readable";
import type { ShownFlow } from "../flow/shown";
import { whyNoRings } from "../render/rings";
import type { Hit, Theme } from "../render/scene";
import { VIEWS as SCENES } from "../render/views";
import { Drawn } from "../shell/Drawn";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/context";
import type { Asked } from "../shell/useAsked";
import type { ViewState } from "../state/state";
import { wordsOf } from "./Details";
import { FlowControls } from "./FlowControls";
import { QueryBox } from "./QueryBox";
import { Stale, panelClass } from "./Stale";
import { type Ground, wordAt } from "./query";
import { reached, statusOf } from "./status";

interface Props {
  readonly asked: Asked<Flow>;
  readonly shown: ShownFlow | null;
  readonly ground: Ground;
  readonly whyNot: string | null; // where this model has no attention to follow
  readonly caption: string;
  readonly selected: Hit | null;
  readonly onHit: (hit: Hit, how: { readonly add: boolean }) => void;
}

export function FlowPanel({ asked, shown, ground, whyNot, caption, selected, onHit }: Props) {
  const { source, state, update, announce } = usePage();
  const { view, specials, tokens, token } = state;
  const flow = asked.value;
  const isOld = asked.pending && shown !== null;
  // A link may ask for rings where there is no room for them.
  const drawn = view === "rings" && flow && whyNoRings(flow) !== null ? "ladder" : view;
  const chosen = shown ? wordsOf(selected, state.head, shown).join(" ") : "";
  const draw = useCallback(
    (theme: Theme, width: number) => {
      const keep = token === null ? tokens : [...tokens, token];
      return shown ? SCENES[drawn](shown, { width, theme, specials, keep }) : EMPTY;
    },
    [shown, drawn, specials, tokens, token],
  );
  return (
    <section className={panelClass("flow", isOld)} aria-labelledby="flow" aria-busy={asked.pending}>
      <h2 id="flow">Flow</h2>
      <Stale isOld={isOld} />
      {whyNot ? (
        <p>{whyNot}</p>
      ) : (
        <>
          <FlowControls
            state={state}
            update={update}
            flow={flow}
            coverage={shown?.coverage ?? 0.5}
            covered={shown ? reached(shown) : "50%"}
            layers={ground.layers}
            word={token === null ? null : wordAt(token, ground)}
            reach={source.reach ?? null}
            query={<QueryBox state={state} ground={ground} update={update} announce={announce} />}
          />
          {asked.fault && <FaultNote fault={asked.fault} onAgain={asked.again} />}
          {drawn !== view && flow && (
            <p className="dim">{whyNoRings(flow)} The ladder shows the same edges.</p>
          )}
          {shown && (
            <>
              <p className="status" role="status">
                {statusOf(shown, amongOf(state, shown))}
              </p>
              {isLower(state, shown) && (
                <p className="dim">
                  Coverage opened at {Math.round(100 * shown.coverage)}%, as much as {READABLE} edges can
                  show.{" "}
                  <button type="button" className="small" onClick={() => update({ coverage: 0.5 })}>
                    Show 50%
                  </button>
                </p>
              )}
              <p className={chosen ? "chosen" : "chosen dim"} role="status">
                {chosen || "Click an edge, a head or a word: its numbers stand here."}
              </p>
              <Drawn name="flow" caption={caption} draw={draw} onHit={onHit} selected={selected} />
              <p className="dim">{shown.flow.note}</p>
              {shown.flow.influence && (
                <p className="dim">
                  Dots are as large as the influence I of the token there: how often it was reached, with
                  decay. Tokens reached, from the input up: {shown.flow.influence.reached.join(", ")} of{" "}
                  {shown.flow.tokens.length}.
                </p>
              )}
            </>
          )}
          {!shown && !asked.fault && <p className="dim">Tracing …</p>}
        </>
      )}
    </section>
  );
}

function isLower({ coverage }: ViewState, shown: ShownFlow): boolean {
  return coverage === null && shown.coverage < 0.5;
}

/** What coverage is a share of: what is carried by the edges that may be shown. */
function amongOf({ tokens, heads, layers, segments, least }: ViewState, { flow }: ShownFlow): string {
  if (flow.influence) return "what the classic edges carry";
  const isAsked =
    tokens.length > 0 || heads.length > 0 || layers !== null || segments.length > 0 || least > 0;
  if (isAsked) return "what the filters let through";
  const isPart = flow.whole - flow.total > 1e-9 * flow.whole;
  return isPart ? "what edges carry to other than special tokens" : "what the edges carry";
}

const EMPTY = { width: 1, height: 1, marks: [], label: "", table: { columns: [], rows: [] }, edges: [] };
