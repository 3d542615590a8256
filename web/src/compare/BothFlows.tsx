/** Flow panel of both models: controls, overlap sentence, and picture of shared and own edges, or of B minus A. */

import { useCallback, useEffect, useMemo } from "react";

import type { InputComparisonData } from "../api/types";
import { chooseCoverage } from "../flow/defaultCoverage";
import { MAX_EDGES, selectVisible } from "../flow/visibleFlow";
import { describeLayerShares } from "../flow/layerShares";
import { formatCaption } from "../render/caption";
import type { Hit, Theme } from "../render/scene";
import { explainNoRings } from "../render/rings";
import { VIEWS } from "../render/views";
import { FlowControls } from "../explain/FlowControls";
import { QueryBox } from "../explain/QueryBox";
import { formatReachedCoverage } from "../explain/flowStatus";
import { type QueryContext, quoteWord } from "../explain/queryLanguage";
import { usePage } from "../shell/pageContext";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { formatWhole, formatPercent } from "../shell/numberFormat";
import { useLinkDefaults } from "../shell/useLinkDefaults";
import { formatToday } from "../shell/today";
import { joinTexts } from "./modelPair";
import { areIdentical, describeOverlap, describeSpecials } from "./edgeSets";

interface Props {
  readonly comparison: InputComparisonData;
  readonly names: readonly [string, string];
  readonly onToken: (token: number, add: boolean) => void;
}

/** Draw the flow of both models and the controls for it. */
export function BothFlows({ comparison, names, onToken }: Props) {
  const { source, state, update, announce, onSelection } = usePage();
  const [a, b] = comparison.flows;
  const flow = useMemo(
    () => selectVisible(a, chooseCoverage(state.coverage, a, b), b),
    [a, b, state.coverage],
  );
  const same = areIdentical(comparison);
  const sentence = useMemo(
    () => describeOverlap(flow, same, comparison.possible),
    [flow, same, comparison.possible],
  );
  useLinkDefaults({ coverage: flow.coverage });
  useEffect(() => {
    onSelection?.({
      tokens: state.tokens,
      edges: flow.edges.map(({ layer, head, source, to }) => [layer, head, source, to] as const),
      head: state.head,
    });
  }, [onSelection, flow, state.tokens, state.head]);
  const [inA, inB] = [describeLayerShares(flow, "a"), describeLayerShares(flow, "b")];
  const noRings = explainNoRings(a);
  const view = state.view === "rings" && noRings !== null ? "ladder" : state.view;
  const queryContext: QueryContext = {
    tokens: comparison.tokens,
    words: comparison.words,
    labels: [...new Set([...comparison.a.labels, ...comparison.b.labels])],
    layers: a.layers,
    heads: a.heads,
  };
  const draw = useCallback(
    (theme: Theme, width: number) =>
      VIEWS[view](flow, {
        width,
        theme,
        specials: state.specials,
        difference: state.difference,
        names: [names[0], names[1]],
        keep: [...state.tokens, ...(state.token === null ? [] : [state.token])],
      }),
    [flow, names, view, state.specials, state.difference, state.tokens, state.token],
  );
  const handleHit = (newHit: Hit, { add }: { readonly add: boolean }): void => {
    if (newHit.kind === "token") onToken(newHit.token, add);
    if (newHit.kind === "head") update({ head: [newHit.layer, newHit.head] }, "replace");
    const edge = newHit.kind === "edge" ? flow.edges[newHit.index] : undefined;
    if (edge && edge.head >= 0) update({ head: [edge.layer, edge.head] }, "replace");
  };
  return (
    <>
      <FlowControls
        state={state}
        update={update}
        flow={a}
        coverage={flow.coverage}
        covered={formatReachedCoverage(flow)}
        layers={a.layers}
        word={state.token === null ? null : quoteWord(state.token, queryContext)}
        reach={source.reach ?? null}
        twoModels
        query={<QueryBox state={state} queryContext={queryContext} update={update} announce={announce} />}
      />
      <div className="controls">
        <div className="switch" role="group" aria-label="What is drawn">
          <button
            type="button"
            aria-pressed={!state.difference}
            onClick={() => update({ difference: false })}
          >
            Shared and apart
          </button>
          <button type="button" aria-pressed={state.difference} onClick={() => update({ difference: true })}>
            Difference B − A
          </button>
        </div>
      </div>
      {view !== state.view && <p className="dim">{noRings}</p>}
      <p className={same ? "sentence identical" : "sentence"} role="status">
        {sentence} {describeSpecials(state.specials === "show")}
        {flow.capped &&
          ` Capped at the strongest ${formatWhole(MAX_EDGES)} edges: they cover ${formatPercent(flow.covered)} of A's, ${formatPercent(flow.coveredOther ?? 0)} of B's.`}
      </p>
      <ResponsivePicture
        name="flow"
        caption={formatCaption({
          model: `${names[0]} and ${names[1]}${state.difference ? " (B − A)" : ""}`,
          text: joinTexts(comparison.input),
          what: describeSpecials(state.specials === "show")
            .replace(/\.$/, "")
            .toLowerCase(),
          trace: state.direction === "back" && state.token === null ? "back from the decision" : null,
          date: formatToday(),
          weight: state.weight,
          coverage: flow.capped ? Math.min(flow.covered, flow.coveredOther ?? 1) : flow.coverage,
          unit: inA === inB ? inA : `of A ${inA}, of B ${inB}`,
        })}
        draw={draw}
        onHit={handleHit}
      />
      <p className="dim">
        Shown: of A {inA}; of B {inB}. {a.note}
      </p>
    </>
  );
}
