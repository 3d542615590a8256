/** One row of a run: words tinted by a method, metric values, link to the workbench. */

import { useEffect, useRef } from "react";

import type { RunExample, RunSummary } from "../api/types";
import { Legend } from "../explain/Legend";
import { buildScale, computeShade, tintShade } from "../render/tint";
import { FaultNote } from "../shell/FaultNote";
import { Table } from "../shell/Table";
import { useServer } from "../shell/pageContext";
import { formatPercent, formatSigned } from "../shell/numberFormat";
import { useRequest } from "../shell/useRequest";
import { formatUrl } from "../state/url";
import { explainRunRow } from "./explainRunRow";

interface Props {
  readonly run: RunSummary;
  readonly row: number;
  readonly method: string | null;
  readonly onMethod: (method: string) => void;
  readonly onClose: () => void;
}

/** Request one row of a run and show it. */
export function RunExampleView({ run, row, method, onMethod, onClose }: Props) {
  const { source, state, announce } = useServer();
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    // It is above the table, perhaps out of the window.
    place.current?.scrollIntoView?.({ block: "nearest" });
    announce(`Row ${row} stands over the table.`);
  }, [row, announce]);
  const request = useRequest(`${run.id} ${run.version} ${row} ${method ?? ""}`, (options) =>
    source.runExample(run.id, row, method, options),
  );
  const one = request.value;
  return (
    <section className="panel run-example" ref={place} aria-label={`Row ${row}`} aria-busy={request.pending}>
      <div className="head">
        <h2>Row {row}</h2>
        {one && (
          <label>
            Method{" "}
            <select value={one.method} onChange={({ target }) => onMethod(target.value)}>
              {one.methods.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        )}
        {one && one.input.text !== null && run.asks !== null && (
          <a href={formatUrl({ ...state, ...explainRunRow(one, run.asks) })}>Explain this in the workbench</a>
        )}
        {run.asks === null && (
          <span className="dim">
            This server does not have the run’s model; start it with <code>--model {run.model}</code> to ask
            it more.
          </span>
        )}
        <button type="button" className="small" onClick={onClose}>
          Close
        </button>
      </div>
      {request.fault && <FaultNote fault={request.fault} onRetry={request.retry} />}
      {one && !request.fault && <ExampleDetails one={one} />}
    </section>
  );
}

function ExampleDetails({ one }: { readonly one: RunExample }) {
  const { theme } = useServer();
  const scored = { word_scores: one.words.map(({ score }) => score), signed: one.signed, scale: one.scale };
  const scale = buildScale(scored);
  const target = { label: one.target ?? one.predicted ?? "", index: 0, against: null, of: "logit" as const };
  const untested = one.tests.some(({ why }) => why !== null);
  const segments = [...new Set(one.words.map(({ segment }) => segment))];
  return (
    <>
      <p className="dim">{describePrediction(one)}</p>
      {one.why !== null && <p className="note">{one.why}</p>}
      {one.words.length === 0 && one.input.text !== null && <p dir="auto">{one.input.text}</p>}
      {segments.map((segment) => (
        <p key={segment} className="run-words" dir="auto">
          {one.words.map((word, index) =>
            word.segment !== segment ? null : (
              <span key={index}>
                {word.before}
                <span
                  className="unit"
                  style={tintShade(computeShade(word.score, scale), one.signed, theme)}
                  title={formatSigned(word.score)}
                >
                  {word.text}
                </span>
              </span>
            ),
          )}
        </p>
      ))}
      {one.words.length > 0 && <Legend one={scored} target={target} theme={theme} />}
      <div className="columns">
        {one.tests.length > 0 && (
          <Table
            caption={`What the metrics say of ${one.method} here`}
            columns={["metric", "value", "at random", ...(untested ? ["why not"] : [])]}
            rows={one.tests.map(({ metric, value, null: random, why }) => [
              metric,
              value,
              random,
              ...(untested ? [why ?? ""] : []),
            ])}
          />
        )}
        {one.words.length > 0 && (
          <details>
            <summary>Words as table</summary>
            <Table
              caption="Words and their scores"
              hideCaption
              columns={["word", "score"]}
              rows={one.words.map((word) => [word.text, word.score])}
            />
          </details>
        )}
      </div>
    </>
  );
}

function describePrediction({ label, target, predicted, probability }: RunExample): string {
  const chance = probability === null ? "" : ` (${formatPercent(probability)})`;
  const sentences = [
    predicted === null ? "" : `predicted ${predicted}${chance}`,
    label === null ? "" : `labelled ${label}`,
    target === null || target === predicted ? "" : `explained for ${target}`,
  ];
  return sentences.filter(Boolean).join(" · ");
}
