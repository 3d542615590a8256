/** Controls of the flow: view, coverage, weight, special tokens, direction, layers, and the classic definition. */

import type { ReactNode } from "react";

import type { Direction, Flow } from "../api/types";
import { explainNoRings } from "../render/rings";
import type { Reach } from "../source/source";
import type { Update } from "../shell/pageContext";
import { SPECIALS, VIEWS, WEIGHTS, listNames } from "../state/choices";
import type { ViewState } from "../state/state";
import { LayerBrush } from "./LayerBrush";

interface Props {
  readonly state: ViewState;
  readonly update: Update;
  readonly flow: Flow | null;
  readonly coverage: number; // requested coverage, or the default
  readonly covered: string; // coverage reached
  readonly layers: number;
  readonly word: string | null; // traced word
  readonly reach: Reach | null;
  readonly twoModels?: boolean; // the classic definition has one model only
  readonly query?: ReactNode;
}

const CLASSIC = { threshold: 0.1, decay: 0.5, carry: true };

/** Show the controls, with the reason where one is disabled. */
export function FlowControls({
  state,
  update,
  flow,
  coverage,
  covered,
  layers,
  word,
  reach,
  twoModels = false,
  query,
}: Props) {
  const noRings = flow ? explainNoRings(flow) : null;
  return (
    <div className="flow-controls">
      <div className="controls">
        <div className="switch" role="group" aria-label="View">
          {listNames(VIEWS).map((name) => (
            <button
              key={name}
              type="button"
              aria-pressed={state.view === name}
              disabled={name === "rings" && noRings !== null}
              title={name === "rings" ? (noRings ?? undefined) : undefined}
              onClick={() => update({ view: name })}
            >
              {VIEWS[name]}
            </button>
          ))}
        </div>
        <label className="coverage">
          Coverage{" "}
          <input
            type="range"
            min={1}
            max={100}
            disabled={state.classic !== null}
            title={
              state.classic ? "The classic definition has its own threshold: all of it is shown." : undefined
            }
            value={Math.round(100 * coverage)}
            aria-valuetext={`${covered} of what the edges carry`}
            onChange={(event) => update({ coverage: Number(event.target.value) / 100 }, "replace")}
          />
          <output>{covered}</output>
        </label>
      </div>
      <div className="controls">
        <label>
          Weight{" "}
          <select
            title={state.classic ? "The classic definition is one of attention." : "What an edge weighs"}
            disabled={state.classic !== null}
            value={state.weight}
            onChange={(event) =>
              update({
                weight: listNames(WEIGHTS).find((each) => each === event.target.value) ?? "attention",
              })
            }
          >
            {listNames(WEIGHTS).map((name) => (
              <option key={name} value={name} disabled={reach ? !reach.weights.includes(name) : false}>
                {WEIGHTS[name]}
              </option>
            ))}
          </select>
        </label>
        <DirectionSwitch
          state={state}
          update={update}
          word={word}
          disabledReason={reach && !reach.trace ? reach.why : null}
        />
        <label>
          Specials{" "}
          <select
            title="Special tokens"
            value={state.specials}
            onChange={(event) =>
              update({
                specials: listNames(SPECIALS).find((each) => each === event.target.value) ?? "gutter",
              })
            }
          >
            {listNames(SPECIALS).map((name) => (
              <option key={name} value={name}>
                {SPECIALS[name]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <div className="controls">
        {layers > 1 && (
          <span className="field">
            Layers{" "}
            <LayerBrush
              layers={layers}
              value={state.layers}
              onChange={(value, mode) => update({ layers: value }, mode)}
            />
          </span>
        )}
        {!twoModels && (
          <ClassicFields state={state} update={update} disabled={reach !== null && !reach.trace} />
        )}
        {query}
      </div>
    </div>
  );
}

interface DirectionProps {
  readonly state: ViewState;
  readonly update: Update;
  readonly word: string | null;
  readonly disabledReason: string | null;
}

function DirectionSwitch({ state, update, word, disabledReason }: DirectionProps) {
  const value = state.token === null ? "decision" : state.direction;
  const why = disabledReason ?? (word === null ? "Click a word in the text first." : undefined);
  const choices: readonly (readonly [Direction, string])[] = [
    ["through", "back to the word"],
    ["forward", "forward from the word"],
    ["back", "back from the word"],
  ];
  return (
    <label title={why}>
      Trace{" "}
      <select
        value={value}
        onChange={({ target }) => {
          const direction = choices.find(([name]) => name === target.value)?.[0];
          update(direction ? { direction } : { direction: "back", token: null });
        }}
      >
        <option value="decision">back from the decision</option>
        {choices.map(([name, words]) => (
          <option key={name} value={name} disabled={word === null}>
            {words.replace("the word", word ?? "a word")}
          </option>
        ))}
      </select>
    </label>
  );
}

function ClassicFields({
  state: { classic },
  update,
  disabled,
}: {
  readonly state: ViewState;
  readonly update: Update;
  readonly disabled: boolean;
}) {
  return (
    <span className="field">
      <label title="The definition of DeRose, Wang & Berger (2020): attention above a threshold, counts that decay">
        <input
          type="checkbox"
          disabled={disabled}
          checked={classic !== null}
          onChange={() =>
            update(
              classic === null
                ? { classic: CLASSIC, weight: "attention", token: null, direction: "back" }
                : { classic: null },
            )
          }
        />{" "}
        classic
      </label>
      {classic && (
        <>
          <label>
            threshold{" "}
            <input
              type="number"
              min={0.01}
              max={1}
              step={0.01}
              value={classic.threshold}
              onChange={({ target }) => {
                if (target.valueAsNumber > 0 && target.valueAsNumber <= 1)
                  update({ classic: { ...classic, threshold: target.valueAsNumber } }, "replace");
              }}
            />
          </label>
          <label>
            decay{" "}
            <input
              type="number"
              min={0}
              max={1}
              step={0.1}
              value={classic.decay}
              onChange={({ target }) => {
                if (target.valueAsNumber >= 0 && target.valueAsNumber <= 1)
                  update({ classic: { ...classic, decay: target.valueAsNumber } }, "replace");
              }}
            />
          </label>
          <label title="What was reached stays reached, by the skip connection">
            <input
              type="checkbox"
              checked={classic.carry}
              onChange={() => update({ classic: { ...classic, carry: !classic.carry } })}
            />{" "}
            carry
          </label>
        </>
      )}
    </span>
  );
}
