/** Flow panel: controls, status line with shares, sentence on the selection, and the picture of the flow. */

import { useCallback } from "react";

import type { Flow } from "../api/types";
import { READABLE_EDGES } from "../flow/defaultCoverage";
import type { VisibleFlow } from "../flow/visibleFlow";
import { explainNoRings } from "../render/rings";
import type { Hit, Theme } from "../render/scene";
import { VIEWS as SCENES } from "../render/views";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/pageContext";
import type { RequestState } from "../shell/useRequest";
import type { ViewState } from "../state/state";
import { describeSelection } from "./EdgeDetails";
import { FlowControls } from "./FlowControls";
import { QueryBox } from "./QueryBox";
import { StaleNote, getPanelClass } from "./StaleNote";
import { type QueryContext, quoteWord } from "./queryLanguage";
import { formatReachedCoverage, formatFlowStatus } from "./flowStatus";

interface Props {
  readonly request: RequestState<Flow>;
  readonly visible: VisibleFlow | null;
  readonly queryContext: QueryContext;
  readonly disabledReason: string | null; // null, or why this model has no attention
  readonly caption: string;
  readonly selected: Hit | null;
  readonly onHit: (hit: Hit, how: { readonly add: boolean }) => void;
}

/** Show the flow of the input. */
export function FlowPanel({
  request,
  visible,
  queryContext,
  disabledReason,
  caption,
  selected,
  onHit,
}: Props) {
  const { source, state, update, announce } = usePage();
  const { view, specials, tokens, token } = state;
  const flow = request.value;
  const isStale = request.pending && visible !== null;
  // A link may request rings for more tokens than fit.
  const visibleView = view === "rings" && flow && explainNoRings(flow) !== null ? "ladder" : view;
  const chosen = visible ? describeSelection(selected, state.head, visible).join(" ") : "";
  const draw = useCallback(
    (theme: Theme, width: number) => {
      const keep = token === null ? tokens : [...tokens, token];
      return visible ? SCENES[visibleView](visible, { width, theme, specials, keep }) : EMPTY;
    },
    [visible, visibleView, specials, tokens, token],
  );
  return (
    <section className={getPanelClass("flow", isStale)} aria-labelledby="flow" aria-busy={request.pending}>
      <h2 id="flow">Flow</h2>
      <StaleNote isStale={isStale} />
      {disabledReason ? (
        <p>{disabledReason}</p>
      ) : (
        <>
          <FlowControls
            state={state}
            update={update}
            flow={flow}
            coverage={visible?.coverage ?? 0.5}
            covered={visible ? formatReachedCoverage(visible) : "50%"}
            layers={queryContext.layers}
            word={token === null ? null : quoteWord(token, queryContext)}
            reach={source.reach ?? null}
            query={<QueryBox state={state} queryContext={queryContext} update={update} announce={announce} />}
          />
          {request.fault && <FaultNote fault={request.fault} onRetry={request.retry} />}
          {visibleView !== view && flow && (
            <p className="dim">{explainNoRings(flow)} The ladder shows the same edges.</p>
          )}
          {visible && (
            <>
              <p className="status" role="status">
                {formatFlowStatus(visible, describeCandidates(state, visible))}
              </p>
              {isDefaultLowered(state, visible) && (
                <p className="dim">
                  Coverage opened at {Math.round(100 * visible.coverage)}%, as much as {READABLE_EDGES} edges
                  can show.{" "}
                  <button type="button" className="small" onClick={() => update({ coverage: 0.5 })}>
                    Show 50%
                  </button>
                </p>
              )}
              <p className={chosen ? "chosen" : "chosen dim"} role="status">
                {chosen || "Click an edge, a head or a word: its numbers stand here."}
              </p>
              <ResponsivePicture
                name="flow"
                caption={caption}
                draw={draw}
                onHit={onHit}
                selected={selected}
              />
              <p className="dim">{visible.flow.note}</p>
              {visible.flow.influence && (
                <p className="dim">
                  Dots are as large as the influence I of the token there: how often it was reached, with
                  decay. Tokens reached, from the input up: {visible.flow.influence.reached.join(", ")} of{" "}
                  {visible.flow.tokens.length}.
                </p>
              )}
            </>
          )}
          {!visible && !request.fault && <p className="dim">Tracing …</p>}
        </>
      )}
    </section>
  );
}

function isDefaultLowered({ coverage }: ViewState, visible: VisibleFlow): boolean {
  return coverage === null && visible.coverage < 0.5;
}

/** Name the edges that coverage is a share of: those that pass the filters. */
function describeCandidates(
  { tokens, heads, layers, segments, least }: ViewState,
  { flow }: VisibleFlow,
): string {
  if (flow.influence) return "what the classic edges carry";
  const isAsked =
    tokens.length > 0 || heads.length > 0 || layers !== null || segments.length > 0 || least > 0;
  if (isAsked) return "what the filters let through";
  const isPart = flow.whole - flow.total > 1e-9 * flow.whole;
  return isPart ? "what edges carry to other than special tokens" : "what the edges carry";
}

const EMPTY = { width: 1, height: 1, marks: [], label: "", table: { columns: [], rows: [] }, edges: [] };
