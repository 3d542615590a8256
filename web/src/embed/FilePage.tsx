/** The workbench of an offline file, for one of its inputs at a time. */

import { useEffect, useMemo, useSyncExternalStore } from "react";

import { fileSource, pictureOf, targetOf, textOf } from "../source/file";
import type { CarriedInput, Payload } from "../source/payload";
import type { ViewState } from "../state/state";
import type { Store } from "../state/store";
import { Embedded } from "./Embedded";

interface Props {
  readonly payload: Payload;
  readonly store: Store;
  readonly title: string;
}

export function FilePage({ payload, store, title }: Props) {
  const state = useSyncExternalStore(store.subscribe, store.get);
  const linked = payload.inputs.findIndex((entry) => isShown(entry, state));
  const chosen = payload.inputs[Math.max(linked, 0)];
  const source = useMemo(() => chosen && fileSource(payload, chosen), [payload, chosen]);
  useEffect(() => {
    if (linked < 0 && chosen) store.update(stateOf(chosen), "replace");
  }, [linked, chosen, store]);
  if (linked < 0 || !chosen || !source) return null;
  return (
    <Embedded source={source} store={store}>
      <header className="bar">
        <h1>{title}</h1>
        {payload.inputs.length > 1 && <Inputs payload={payload} at={linked} onChoice={store.update} />}
      </header>
      {payload.left_out.length > 0 && <p className="notice">{leftOut(payload)}</p>}
    </Embedded>
  );
}

interface InputsProps {
  readonly payload: Payload;
  readonly at: number;
  readonly onChoice: Store["update"];
}

function Inputs({ payload, at, onChoice }: InputsProps) {
  const choose = (place: number): void => {
    const entry = payload.inputs[place];
    if (entry) onChoice(stateOf(entry));
  };
  return (
    <label className="inputs">
      <span>{`Input, of ${payload.inputs.length}:`}</span>
      <select value={at} onChange={(event) => choose(Number(event.target.value))}>
        {payload.inputs.map((entry, place) => (
          <option key={place} value={place}>
            {`${place + 1}. ${named(entry)}`}
          </option>
        ))}
      </select>
    </label>
  );
}

function named({ explanations }: CarriedInput): string {
  const { model, input } = explanations;
  const text = [
    pictureOf(explanations) ?? textOf(explanations),
    ...(input.pair === null ? [] : [input.pair]),
  ].join(" | ");
  return `${text.length > 60 ? `${text.slice(0, 60)}…` : text} (${model.name}: ${targetOf(explanations)})`;
}

function isShown({ explanations }: CarriedInput, state: ViewState): boolean {
  const { model, input, target } = explanations;
  return (
    state.model === model.name &&
    state.text === textOf(explanations) &&
    state.pair === input.pair &&
    state.picture === pictureOf(explanations) &&
    state.target === asked(explanations) &&
    state.of === target.of
  );
}

/** The state that shows an input; what points into another one is cleared. */
function stateOf({ explanations }: CarriedInput): Partial<ViewState> {
  return {
    page: "explain",
    model: explanations.model.name,
    text: textOf(explanations),
    pair: explanations.input.pair,
    picture: pictureOf(explanations),
    target: asked(explanations),
    of: explanations.target.of,
    methods: explanations.explanations.slice(0, 4).map((one) => one.method),
    direction: "back",
    token: null,
    tokens: [],
    layers: null,
    heads: [],
    head: null,
  };
}

/** The target as the state has it: null is what was predicted. */
function asked(explanations: CarriedInput["explanations"]): string | null {
  const { target, prediction } = explanations;
  return !target.against && target.index === prediction.index ? null : targetOf(explanations);
}

const TIERS = {
  maps: "maps of single heads",
  thumbnails: "thumbnails",
  words: "traces through words",
} as const;

function leftOut({ left_out }: Payload): string {
  return `For the file's size these were left out: ${left_out.map((tier) => TIERS[tier]).join(", ")}.`;
}
