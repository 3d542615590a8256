/** Compare page: choice and swap of two models, input form, and tabs for one input and for a data set. */

import { useEffect, useMemo } from "react";

import { InputForm } from "../explain/InputForm";
import { RESET_SELECTION } from "../explain/inputRequest";
import { ModelChoice } from "../shell/ModelChoice";
import { Tabs } from "../shell/Tabs";
import { isServer, usePage } from "../shell/pageContext";
import { matchKey } from "../state/keyMap";
import { buildCompareRequest, swapModels } from "./compareRequest";
import { resolveModelPair, nameModelPair } from "./modelPair";
import { InputComparison } from "./InputComparison";
import { DataComparison } from "./DataComparison";
import { Swatch } from "./Swatch";
import "../shell/parts.css";
import "./compare.css";

const PARTS = { "": "One input", data: "Over a data set" };

/** Show the controls of a comparison and the tab that is open. */
export function ComparePage() {
  const { source, session, state, update, announce, root } = usePage();
  const models = resolveModelPair(state, session);
  const { a, b } = models;
  const names = useMemo(() => nameModelPair({ a, b }, session), [a, b, session]);
  const request = buildCompareRequest(state, session);
  const swap = (): void => {
    update(swapModels(state, session), "push");
    announce(`Swapped: A is now ${names[1]}, B is ${names[0]}.`);
  };
  useEffect(() => {
    const key = (event: KeyboardEvent): void => {
      const action = matchKey(event, root)?.action;
      if (action === "swap") swap();
      else if (action === "difference") update({ difference: !state.difference }, "push");
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  });
  const choices = (
    <div className="two-models">
      <span className="one-model">
        <Swatch of="a" />
        <ModelChoice
          label="A"
          value={a}
          onChange={(model) => update({ ...RESET_SELECTION, model, other: b }, "push")}
        />
      </span>
      <button
        type="button"
        className="small"
        onClick={swap}
        title="Swap the models (x)"
        aria-label="Swap the models"
      >
        ⇄
      </button>
      <span className="one-model">
        <Swatch of="b" />
        <ModelChoice
          label="B"
          value={b}
          onChange={(other) => update({ ...RESET_SELECTION, model: a, other }, "push")}
        />
      </span>
    </div>
  );
  const tabs = isServer(source) ? PARTS : { "": PARTS[""] };
  return (
    <div className="compare-page">
      <h1 className="unseen">Compare</h1>
      <InputForm
        key={`${request.text}\n${request.pair ?? ""}`}
        input={{
          model: a,
          text: request.text,
          pair: request.pair ?? null,
          target: null,
          of: "logit",
          truncate: true,
        }}
        session={session}
        pending={false}
        disabledReason={source.reach && !source.reach.input ? source.reach.why : null}
        onAsk={({ text, pair }) => update({ ...RESET_SELECTION, text, pair, tab: "" }, "push")}
        onModel={() => undefined}
        models={choices}
        plain
        verb="Compare"
      />
      {isServer(source) && session.models.length === 1 && (
        <p className="dim">
          Only one model is here, and it is compared with itself. For two:{" "}
          <code>whence app --compare BASE TUNED</code>
        </p>
      )}
      <Tabs
        label="How much is compared"
        names={tabs}
        value={state.tab in tabs ? state.tab : ""}
        onChange={(tab) => update({ tab }, "push")}
      >
        {(tab) =>
          tab === "data" ? (
            <DataComparison models={models} names={names} />
          ) : (
            <InputComparison request={request} models={models} names={names} />
          )
        }
      </Tabs>
    </div>
  );
}
