/** The flow of both models in one picture: shared, only A, only B; or how much more of it goes through B. */

import { useCallback, useEffect, useMemo } from "react";

import type { Compared } from "../api/types";
import { readable } from "../flow/readable";
import { MOST, shown } from "../flow/shown";
import { unitInWords } from "../flow/unit";
import { caption } from "../render/caption";
import type { Hit, Theme } from "../render/scene";
import { whyNoRings } from "../render/rings";
import { VIEWS } from "../render/views";
import { FlowControls } from "../explain/FlowControls";
import { QueryBox } from "../explain/QueryBox";
import { reached } from "../explain/status";
import { type Ground, wordAt } from "../explain/query";
import { usePage } from "../shell/context";
import { Drawn } from "../shell/Drawn";
import { grouped, percent } from "../shell/figures";
import { useSettled } from "../shell/useSettled";
import { today } from "../shell/today";
import { bothTexts } from "./models";
import { identical, setSentence, whichCount } from "./sets";

interface Props {
  readonly compared: Compared;
  readonly names: readonly [string, string];
  readonly onToken: (token: number, add: boolean) => void;
}

export function FlowOfBoth({ compared, names, onToken }: Props) {
  const { source, state, update, announce, onSelection } = usePage();
  const [a, b] = compared.flows;
  const flow = useMemo(() => shown(a, readable(state.coverage, a, b), b), [a, b, state.coverage]);
  const same = identical(compared);
  const sentence = useMemo(() => setSentence(flow, same, compared.possible), [flow, same, compared.possible]);
  useSettled({ coverage: flow.coverage });
  useEffect(() => {
    onSelection?.({
      tokens: state.tokens,
      edges: flow.edges.map(({ layer, head, source, to }) => [layer, head, source, to] as const),
      head: state.head,
    });
  }, [onSelection, flow, state.tokens, state.head]);
  const [inA, inB] = [unitInWords(flow, "a"), unitInWords(flow, "b")];
  const noRings = whyNoRings(a);
  const view = state.view === "rings" && noRings !== null ? "ladder" : state.view;
  const ground: Ground = {
    tokens: compared.tokens,
    words: compared.words,
    labels: [...new Set([...compared.a.labels, ...compared.b.labels])],
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
  const hit = (found: Hit, { add }: { readonly add: boolean }): void => {
    if (found.kind === "token") onToken(found.token, add);
    if (found.kind === "head") update({ head: [found.layer, found.head] }, "replace");
    const edge = found.kind === "edge" ? flow.edges[found.index] : undefined;
    if (edge && edge.head >= 0) update({ head: [edge.layer, edge.head] }, "replace");
  };
  return (
    <>
      <FlowControls
        state={state}
        update={update}
        flow={a}
        coverage={flow.coverage}
        covered={reached(flow)}
        layers={a.layers}
        word={state.token === null ? null : wordAt(state.token, ground)}
        reach={source.reach ?? null}
        twoModels
        query={<QueryBox state={state} ground={ground} update={update} announce={announce} />}
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
        {sentence} {whichCount(state.specials === "show")}
        {flow.capped &&
          ` Capped at the strongest ${grouped(MOST)} edges: they cover ${percent(flow.covered)} of A's, ${percent(flow.coveredOther ?? 0)} of B's.`}
      </p>
      <Drawn
        name="flow"
        caption={caption({
          model: `${names[0]} and ${names[1]}${state.difference ? " (B − A)" : ""}`,
          text: bothTexts(compared.input),
          what: whichCount(state.specials === "show")
            .replace(/\.$/, "")
            .toLowerCase(),
          way: state.direction === "back" && state.token === null ? "back from the decision" : null,
          date: today(),
          weight: state.weight,
          coverage: flow.capped ? Math.min(flow.covered, flow.coveredOther ?? 1) : flow.coverage,
          unit: inA === inB ? inA : `of A ${inA}, of B ${inB}`,
        })}
        draw={draw}
        onHit={hit}
      />
      <p className="dim">
        Shown: of A {inA}; of B {inB}. {a.note}
      </p>
    </>
  );
}
