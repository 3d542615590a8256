/** Trust card: job that tests each method on this input, verdicts beside chance levels, curves and table. */

import { useCallback, useState } from "react";

import type { TrustCardData, TrustTest } from "../api/types";
import { drawCurve } from "../render/curve";
import type { TableData, Theme } from "../render/scene";
import { CsvButton } from "../shell/CsvButton";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { FaultNote } from "../shell/FaultNote";
import { HelpLink } from "../shell/HelpLink";
import { JobProgress } from "../shell/JobProgress";
import { formatPlain } from "../shell/numberFormat";
import type { JobState } from "../shell/useRequest";

interface Props {
  readonly work: JobState<TrustCardData>;
  readonly methods: readonly string[];
  readonly caption: string;
  readonly disabledReason: string | null;
  readonly onTest: () => void;
}

/** Start the tests and show their verdicts. */
export function TrustCard({ work, methods, caption, disabledReason, onTest }: Props) {
  const { value, running, fault } = work;
  return (
    <section className="panel trust" aria-labelledby="trust">
      <h2 id="trust">Trust</h2>
      {fault && <FaultNote fault={fault} onRetry={onTest} />}
      {running && <JobProgress job={work.job} onCancel={work.cancel} />}
      {!running && value === null && (
        <>
          <p>
            <Verdict verdict="not tested" /> Does {methods.join(", ")} know more about this input than chance
            does? Nobody has asked yet.
          </p>
          <button
            type="button"
            className="primary"
            disabled={disabledReason !== null}
            title={disabledReason ?? undefined}
            onClick={onTest}
          >
            Test it
          </button>
          {disabledReason && <p className="dim">{disabledReason}</p>}
        </>
      )}
      {value && <TestedMethods card={value} caption={caption} />}
    </section>
  );
}

function TestedMethods({ card, caption }: { readonly card: TrustCardData; readonly caption: string }) {
  return (
    <>
      <p>{card.sentence}</p>
      {card.methods.map((method, index) => (
        <MethodVerdict
          key={method.method}
          method={method}
          card={card}
          isFirst={index === 0}
          caption={`${caption} · ${method.method}`}
        />
      ))}
      <p className="dim">
        {card.units} {UNITS[card.unit]}, {card.rankings} random rankings beside it.{" "}
        <CsvButton name="trust" caption={caption} table={buildTestTable(card)} />
      </p>
    </>
  );
}

interface MethodVerdictProps {
  readonly method: TrustCardData["methods"][number];
  readonly card: TrustCardData;
  readonly isFirst: boolean;
  readonly caption: string;
}

function MethodVerdict({ method, card, isFirst, caption }: MethodVerdictProps) {
  const rules = new Map(card.rules.map((rule) => [rule.name, rule]));
  const tested = method.tests.filter(({ verdict }) => verdict !== "not tested");
  const rest = method.tests.filter(({ verdict }) => verdict === "not tested");
  return (
    <details open={isFirst} className="tested">
      <summary>
        <b>
          <HelpLink kind="method" name={method.method} />
        </b>{" "}
        <Verdict verdict={method.verdict} />
      </summary>
      {card.methods.length > 1 && <p>{method.sentence}</p>}
      <ul className="tests">
        {tested.map((test) => (
          <TestResult
            key={buildTestKey(test)}
            test={test}
            rule={rules.get(test.name)}
            features={UNITS[card.unit]}
            caption={caption}
          />
        ))}
      </ul>
      {rest.length > 0 && (
        <details>
          <summary className="dim">Not tested: {rest.map(formatTestName).join(", ")}</summary>
          <ul className="tests">
            {rest.map((test) => (
              <TestResult
                key={buildTestKey(test)}
                test={test}
                rule={rules.get(test.name)}
                features={UNITS[card.unit]}
                caption={caption}
              />
            ))}
          </ul>
        </details>
      )}
    </details>
  );
}

interface TestResultProps {
  readonly test: TrustTest;
  readonly rule: TrustCardData["rules"][number] | undefined;
  readonly features: string;
  readonly caption: string;
}

function TestResult({ test, rule, features, caption }: TestResultProps) {
  const question = rule?.question ?? "";
  const [open, setOpen] = useState(test.name === "deletion");
  return (
    <li>
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary title={question}>
          <b>
            <HelpLink kind="metric" name={rule?.metric ?? test.name}>
              {formatTestName(test)}
            </HelpLink>
          </b>{" "}
          {test.remove && <span className="dim">{describeRemoval(test.remove)} </span>}
          <Verdict verdict={test.verdict} />
        </summary>
        <p>{test.why}</p>
        {question && <p className="dim">{question}</p>}
        {test.curve && open && (
          <TestCurve curve={test.curve} test={test.name} features={features} caption={caption} />
        )}
      </details>
      {formatTestValue(test) && <p className="figures">{formatTestValue(test)}</p>}
    </li>
  );
}

interface CurveProps {
  readonly curve: NonNullable<TrustTest["curve"]>;
  readonly test: string;
  readonly features: string;
  readonly caption: string;
}

function TestCurve({ curve: numbers, test, features, caption }: CurveProps) {
  const kept = test === "sufficiency";
  const draw = useCallback(
    (theme: Theme, width: number) =>
      drawCurve(numbers, {
        width,
        theme,
        title: `${test}: the target's probability by the share of ${features} that are ${kept ? "kept" : "removed"}`,
        across: `share of the ${features} ${kept ? "kept" : "removed"}`,
        up: "probability of the target",
      }),
    [numbers, test, features, kept],
  );
  return (
    <ResponsivePicture name={`trust-${test}`} caption={`${caption} · test ${test}`} draw={draw} most={420} />
  );
}

function formatTestName({ name }: TrustTest): string {
  return name.replaceAll("_", " ");
}

function buildTestKey({ name, remove }: TrustTest): string {
  return `${name} ${remove ?? ""}`;
}

const UNITS = { token: "tokens", word: "words", patch: "patches" } as const;

const REMOVALS: Readonly<Record<string, string>> = {
  mask: "by masking",
  delete: "by deleting",
  pad: "by padding",
  unk: "by an unknown word",
  draw: "by what a masked language model draws",
  black: "by black",
  mean: "by the mean colour",
  blur: "by blurring",
};

/** Describe how words or patches are removed. */
function describeRemoval(remove: string): string {
  return REMOVALS[remove] ?? remove;
}

const TEST_COLUMNS = [
  "method", "test", "removal", "verdict", "value", "better", "random low", "random mean", "random high",
  "percentile", "beaten", "of", "why",
]; // prettier-ignore

function buildTestTable({ methods }: TrustCardData): TableData {
  return {
    columns: TEST_COLUMNS,
    rows: methods.flatMap(({ method, tests }) =>
      tests.map(
        (test) =>
        [
          method, test.name, test.remove, test.verdict, test.value, test.direction, test.null?.low,
          test.null?.mean, test.null?.high, test.percentile, test.beaten, test.of, test.why,
        ].map((value) => value ?? ""), // prettier-ignore
      ),
    ),
  };
}

/** Format the value, its chance level, and its percentile among random rankings. */
export function formatTestValue({
  value,
  null: random,
  percentile,
  interval,
  direction,
  beaten,
  of,
}: TrustTest): string {
  if (value === null) return "";
  const parts = [`value ${formatPlain(value)}${direction ? `, ${direction} is better` : ""}`];
  if (random)
    parts.push(
      `random ${formatPlain(random.mean)} (${formatPlain(random.low)} to ${formatPlain(random.high)})`,
    );
  if (percentile !== null) {
    const within = interval ? ` (${formatPlain(interval[0])} to ${formatPlain(interval[1])})` : "";
    parts.push(`percentile ${formatPlain(percentile)}${within}`);
  }
  if (beaten !== null && of !== null) parts.push(`beats ${beaten} of ${of}`);
  return parts.join(" · ");
}

const SIGNS: Readonly<Record<string, string>> = { holds: "✓", weak: "~", fails: "✗" };

/** Show a verdict as a sign with its word. */
export function Verdict({ verdict }: { readonly verdict: string }) {
  return (
    <span className={`verdict ${verdict.replace(" ", "-")}`}>
      <span aria-hidden="true">{SIGNS[verdict] ?? "?"}</span> {verdict}
    </span>
  );
}
