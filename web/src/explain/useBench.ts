/** The numbers of the workbench: explanations, the flow, and the edges of it that are shown. */

import { useMemo } from "react";

import type { Explanations, Flow, Input, ModelEntry } from "../api/types";
import { readable } from "../flow/readable";
import { type ShownFlow, shown as shownOf } from "../flow/shown";
import { usePage } from "../shell/context";
import { type Asked, useAsked } from "../shell/useAsked";
import { entryOf, flowAsked, inputOf } from "./asked";
import { missing, namedOf } from "./fields";
import type { Ground } from "./query";
import { useLoaded } from "./useLoaded";

export interface Numbers {
  readonly input: Input;
  readonly entry: ModelEntry | undefined;
  readonly explained: Asked<Explanations>;
  readonly traced: Asked<Flow>;
  readonly shown: ShownFlow | null;
  readonly ground: Ground;
  readonly noFlow: string | null; // why this model has no attention to follow
  readonly missing: string | null; // what is to be given before anything can be asked
}

export function useNumbers(): Numbers {
  const { source, session, state } = usePage();
  const input = useMemo(() => inputOf(state, session), [state, session]);
  const entry = entryOf(input, session);
  const explainAsked = { input, methods: [...state.methods] };
  const isKnown = useLoaded(entry);
  const lacking = missing(input, entry);
  const canAsk = isKnown && lacking === null;
  const explained = useAsked(canAsk ? JSON.stringify([session.started, explainAsked]) : null, (asking) =>
    source.explain(explainAsked, asking),
  );
  const noFlow = entry?.attention ?? null;
  const asked = flowAsked(state, session);
  const traced = useAsked(
    canAsk && noFlow === null ? JSON.stringify([session.started, asked]) : null,
    (asking) => source.flow(asked, asking),
  );
  const flow = traced.value;
  const shown = useMemo(
    // The classic definition has its own threshold: all that it reaches is shown.
    () => (flow ? shownOf(flow, flow.influence ? 1 : readable(state.coverage, flow)) : null),
    [flow, state.coverage],
  );
  const explanations = explained.fault ? null : explained.value;
  const ground = useMemo(
    () => ({
      tokens: explanations?.tokens ?? flow?.tokens ?? [],
      words: explanations?.words ?? [],
      labels: explanations ? namedOf(explanations) : [],
      layers: flow?.layers ?? entry?.layers ?? 0,
      heads: flow?.heads ?? entry?.heads ?? 0,
    }),
    [explanations, flow, entry?.layers, entry?.heads],
  );
  return { input, entry, explained, traced, shown, ground, noFlow, missing: isKnown ? lacking : null };
}
