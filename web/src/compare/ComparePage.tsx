/** Two models of one tokenizer, on one input and over a data set. */

import { useEffect, useMemo } from "react";

import { AskForm } from "../explain/AskForm";
import { FORGET } from "../explain/asked";
import { ModelChoice } from "../shell/ModelChoice";
import { Tabs } from "../shell/Tabs";
import { isServer, usePage } from "../shell/context";
import { pressed } from "../state/keys";
import { compareAsked, swapped } from "./asked";
import { modelsOf, namesFor } from "./models";
import { OneInput } from "./OneInput";
import { OverData } from "./OverData";
import { Swatch } from "./Swatch";
import "../shell/parts.css";
import "./compare.css";

const PARTS = { "": "One input", data: "Over a data set" };

export function ComparePage() {
  const { source, session, state, update, announce, root } = usePage();
  const models = modelsOf(state, session);
  const { a, b } = models;
  const names = useMemo(() => namesFor({ a, b }, session), [a, b, session]);
  const asked = compareAsked(state, session);
  const swap = (): void => {
    update(swapped(state, session), "push");
    announce(`Swapped: A is now ${names[1]}, B is ${names[0]}.`);
  };
  useEffect(() => {
    const key = (event: KeyboardEvent): void => {
      const action = pressed(event, root)?.action;
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
          onChange={(model) => update({ ...FORGET, model, other: b }, "push")}
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
          onChange={(other) => update({ ...FORGET, model: a, other }, "push")}
        />
      </span>
    </div>
  );
  const tabs = isServer(source) ? PARTS : { "": PARTS[""] };
  return (
    <div className="compare-page">
      <h1 className="unseen">Compare</h1>
      <AskForm
        key={`${asked.text}\n${asked.pair ?? ""}`}
        input={{
          model: a,
          text: asked.text,
          pair: asked.pair ?? null,
          target: null,
          of: "logit",
          truncate: true,
        }}
        session={session}
        pending={false}
        whyNot={source.reach && !source.reach.input ? source.reach.why : null}
        onAsk={({ text, pair }) => update({ ...FORGET, text, pair, tab: "" }, "push")}
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
            <OverData models={models} names={names} />
          ) : (
            <OneInput asked={asked} models={models} names={names} />
          )
        }
      </Tabs>
    </div>
  );
}
