/** Page of an offline file: workbench, menu of the file's inputs, state of each input, note on left-out data. */

import { useEffect, useMemo, useSyncExternalStore } from "react";

import { createFileSource, getPicture, formatTarget, getText } from "../source/fileSource";
import type { FileInput, FileData } from "../source/fileData";
import type { ViewState } from "../state/state";
import type { Store } from "../state/store";
import { EmbeddedPage } from "./EmbeddedPage";

interface Props {
  readonly fileData: FileData;
  readonly store: Store;
  readonly title: string;
}

/** Show the workbench for the input that the link selects, else the first. */
export function FilePage({ fileData, store, title }: Props) {
  const state = useSyncExternalStore(store.subscribe, store.get);
  const matchIndex = fileData.inputs.findIndex((entry) => matchesState(entry, state));
  const chosen = fileData.inputs[Math.max(matchIndex, 0)];
  const source = useMemo(() => chosen && createFileSource(fileData, chosen), [fileData, chosen]);
  useEffect(() => {
    if (matchIndex < 0 && chosen) store.update(buildState(chosen), "replace");
  }, [matchIndex, chosen, store]);
  if (matchIndex < 0 || !chosen || !source) return null;
  return (
    <EmbeddedPage source={source} store={store}>
      <header className="bar">
        <h1>{title}</h1>
        {fileData.inputs.length > 1 && (
          <InputSelect fileData={fileData} at={matchIndex} onChoice={store.update} />
        )}
      </header>
      {fileData.left_out.length > 0 && <p className="notice">{describeOmissions(fileData)}</p>}
    </EmbeddedPage>
  );
}

interface InputSelectProps {
  readonly fileData: FileData;
  readonly at: number;
  readonly onChoice: Store["update"];
}

function InputSelect({ fileData, at, onChoice }: InputSelectProps) {
  const choose = (place: number): void => {
    const entry = fileData.inputs[place];
    if (entry) onChoice(buildState(entry));
  };
  return (
    <label className="inputs">
      <span>{`Input, of ${fileData.inputs.length}:`}</span>
      <select value={at} onChange={(event) => choose(Number(event.target.value))}>
        {fileData.inputs.map((entry, place) => (
          <option key={place} value={place}>
            {`${place + 1}. ${describeInput(entry)}`}
          </option>
        ))}
      </select>
    </label>
  );
}

function describeInput({ explanations }: FileInput): string {
  const { model, input } = explanations;
  const text = [
    getPicture(explanations) ?? getText(explanations),
    ...(input.pair === null ? [] : [input.pair]),
  ].join(" | ");
  return `${text.length > 60 ? `${text.slice(0, 60)}…` : text} (${model.name}: ${formatTarget(explanations)})`;
}

function matchesState({ explanations }: FileInput, state: ViewState): boolean {
  const { model, input, target } = explanations;
  return (
    state.model === model.name &&
    state.text === getText(explanations) &&
    state.pair === input.pair &&
    state.picture === getPicture(explanations) &&
    state.target === resolveTarget(explanations) &&
    state.of === target.of
  );
}

/** Build the state that opens an input; selections of another input are cleared. */
function buildState({ explanations }: FileInput): Partial<ViewState> {
  return {
    page: "explain",
    model: explanations.model.name,
    text: getText(explanations),
    pair: explanations.input.pair,
    picture: getPicture(explanations),
    target: resolveTarget(explanations),
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

/** Return the target as the state has it: null for the predicted class. */
function resolveTarget(explanations: FileInput["explanations"]): string | null {
  const { target, prediction } = explanations;
  return !target.against && target.index === prediction.index ? null : formatTarget(explanations);
}

const TIERS = {
  maps: "maps of single heads",
  thumbnails: "thumbnails",
  words: "traces through words",
} as const;

function describeOmissions({ left_out }: FileData): string {
  return `For the file's size these were left out: ${left_out.map((tier) => TIERS[tier]).join(", ")}.`;
}
