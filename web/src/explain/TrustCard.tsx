/** Can this explanation be believed? Tested on this very input, beside explanations that know nothing. */

import { useCallback, useState } from "react";

import type { TrustCard as Card, TrustTest } from "../api/types";
import { curve } from "../render/curve";
import type { Table, Theme } from "../render/scene";
import { CsvButton } from "../shell/CsvButton";
import { Drawn } from "../shell/Drawn";
import { FaultNote } from "../shell/FaultNote";
import { HelpLink } from "../shell/HelpLink";
import { JobLine } from "../shell/JobLine";
import { plain } from "../shell/figures";
import type { Working } from "../shell/useAsked";

interface Props {
  readonly work: Working<Card>;
  readonly methods: readonly string[];
  readonly caption: string;
  readonly whyNot: string | null;
  readonly onTest: () => void;
}

export function TrustCard({ work, methods, caption, whyNot, onTest }: Props) {
  const { value, running, fault } = work;
  return (
    <section className="panel trust" aria-labelledby="trust">
      <h2 id="trust">Trust</h2>
      {fault && <FaultNote fault={fault} onAgain={onTest} />}
      {running && <JobLine job={work.job} onCancel={work.cancel} />}
      {!running && value === null && (
        <>
          <p>
            <Verdict verdict="not tested" /> Does {methods.join(", ")} know more about this input than chance
            does? Nobody has asked yet.
          </p>
          <button
            type="button"
            className="primary"
            disabled={whyNot !== null}
            title={whyNot ?? undefined}
            onClick={onTest}
          >
            Test it
          </button>
          {whyNot && <p className="dim">{whyNot}</p>}
        </>
      )}
      {value && <Tested card={value} caption={caption} />}
    </section>
  );
}

function Tested({ card, caption }: { readonly card: Card; readonly caption: string }) {
  return (
    <>
      <p>{card.sentence}</p>
      {card.methods.map((method, index) => (
        <Method
          key={method.method}
          method={method}
          card={card}
          isFirst={index === 0}
          caption={`${caption} · ${method.method}`}
        />
      ))}
      <p className="dim">
        {card.units} {UNITS[card.unit]}, {card.rankings} random rankings beside it.{" "}
        <CsvButton name="trust" caption={caption} table={testTable(card)} />
      </p>
    </>
  );
}

interface MethodProps {
  readonly method: Card["methods"][number];
  readonly card: Card;
  readonly isFirst: boolean;
  readonly caption: string;
}

function Method({ method, card, isFirst, caption }: MethodProps) {
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
          <Test
            key={keyOf(test)}
            test={test}
            rule={rules.get(test.name)}
            units={UNITS[card.unit]}
            caption={caption}
          />
        ))}
      </ul>
      {rest.length > 0 && (
        <details>
          <summary className="dim">Not tested: {rest.map(nameOf).join(", ")}</summary>
          <ul className="tests">
            {rest.map((test) => (
              <Test
                key={keyOf(test)}
                test={test}
                rule={rules.get(test.name)}
                units={UNITS[card.unit]}
                caption={caption}
              />
            ))}
          </ul>
        </details>
      )}
    </details>
  );
}

interface TestProps {
  readonly test: TrustTest;
  readonly rule: Card["rules"][number] | undefined;
  readonly units: string;
  readonly caption: string;
}

function Test({ test, rule, units, caption }: TestProps) {
  const question = rule?.question ?? "";
  const [open, setOpen] = useState(test.name === "deletion");
  return (
    <li>
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary title={question}>
          <b>
            <HelpLink kind="metric" name={rule?.metric ?? test.name}>
              {nameOf(test)}
            </HelpLink>
          </b>{" "}
          {test.remove && <span className="dim">{removal(test.remove)} </span>}
          <Verdict verdict={test.verdict} />
        </summary>
        <p>{test.why}</p>
        {question && <p className="dim">{question}</p>}
        {test.curve && open && (
          <TestCurve curve={test.curve} test={test.name} units={units} caption={caption} />
        )}
      </details>
      {figuresOf(test) && <p className="figures">{figuresOf(test)}</p>}
    </li>
  );
}

interface CurveProps {
  readonly curve: NonNullable<TrustTest["curve"]>;
  readonly test: string;
  readonly units: string;
  readonly caption: string;
}

function TestCurve({ curve: numbers, test, units, caption }: CurveProps) {
  const kept = test === "sufficiency";
  const draw = useCallback(
    (theme: Theme, width: number) =>
      curve(numbers, {
        width,
        theme,
        title: `${test}: the target's probability by the share of ${units} that are ${kept ? "kept" : "removed"}`,
        across: `share of the ${units} ${kept ? "kept" : "removed"}`,
        up: "probability of the target",
      }),
    [numbers, test, units, kept],
  );
  return <Drawn name={`trust-${test}`} caption={`${caption} · test ${test}`} draw={draw} most={420} />;
}

function nameOf({ name }: TrustTest): string {
  return name.replaceAll("_", " ");
}

function keyOf({ name, remove }: TrustTest): string {
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

/** How words or patches are taken away, in words. */
function removal(remove: string): string {
  return REMOVALS[remove] ?? remove;
}

const TEST_COLUMNS = [
  "method", "test", "removal", "verdict", "value", "better", "random low", "random mean", "random high",
  "percentile", "beaten", "of", "why",
]; // prettier-ignore

function testTable({ methods }: Card): Table {
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

/** The value beside what chance gets, and the place among random rankings. */
export function figuresOf({
  value,
  null: random,
  percentile,
  interval,
  direction,
  beaten,
  of,
}: TrustTest): string {
  if (value === null) return "";
  const parts = [`value ${plain(value)}${direction ? `, ${direction} is better` : ""}`];
  if (random) parts.push(`random ${plain(random.mean)} (${plain(random.low)} to ${plain(random.high)})`);
  if (percentile !== null) {
    const within = interval ? ` (${plain(interval[0])} to ${plain(interval[1])})` : "";
    parts.push(`percentile ${plain(percentile)}${within}`);
  }
  if (beaten !== null && of !== null) parts.push(`beats ${beaten} of ${of}`);
  return parts.join(" · ");
}

const SIGNS: Readonly<Record<string, string>> = { holds: "✓", weak: "~", fails: "✗" };

export function Verdict({ verdict }: { readonly verdict: string }) {
  return (
    <span className={`verdict ${verdict.replace(" ", "-")}`}>
      <span aria-hidden="true">{SIGNS[verdict] ?? "?"}</span> {verdict}
    </span>
  );
}
