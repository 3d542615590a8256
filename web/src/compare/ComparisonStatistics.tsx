/** Figures of two models over a data set, each beside what chance gives. */

import type { Comparison, Interval } from "../api/types";
import { HelpLink } from "../shell/HelpLink";
import { apart, figure, fixed, percent, points } from "../shell/figures";
import { shortened } from "./models";
import { whichCount } from "./sets";
import { Swatch } from "./Swatch";

interface Props {
  readonly comparison: Comparison;
  readonly names: readonly [string, string];
}

export function Overlap({ comparison: { overlap }, names }: Props) {
  return (
    <section className="panel">
      <h3>Flow: {percent(overlap.coverage)} covered</h3>
      <dl className="figures-list">
        <Figure name="Shared edges (Jaccard)" of={overlap.jaccard} />
        <Figure name="Random edges" of={overlap.chance} dim />
        <Figure name={`Only in ${names[0]}`} of={overlap.only_a} written={percent} mark="a" />
        <Figure name={`Only in ${names[1]}`} of={overlap.only_b} written={percent} mark="b" />
      </dl>
      <p className="dim">
        {whichCount(overlap.specials)} If they {overlap.specials ? "did not" : "did"}:
      </p>
      <dl className="figures-list">
        <Figure name="Shared edges (Jaccard)" of={overlap.other.jaccard} dim />
        <Figure name="Random edges" of={overlap.other.chance} dim />
      </dl>
    </section>
  );
}

export function Agreement({ comparison, names }: Props) {
  const { attribution, without_attribution: why } = comparison;
  return (
    <section className="panel">
      <h3>
        Words
        {attribution && (
          <>
            , by <HelpLink kind="method" name={attribution.method} />
          </>
        )}
      </h3>
      {attribution ? (
        <dl className="figures-list">
          <Figure name="Kendall's tau-b" of={attribution.tau} />
          <div className="dim">
            <dt>Random rankings</dt>
            <dd>0</dd>
          </div>
          <Figure name={`Top ${attribution.k} in common`} of={attribution.top} written={percent} />
          <Figure name="Random rankings" of={attribution.chance} written={percent} dim />
        </dl>
      ) : (
        <p className="empty">{shortened(why ?? "Not compared.", comparison, names)}</p>
      )}
    </section>
  );
}

export function Outcomes({ comparison, names }: Props) {
  const { predictions } = comparison;
  if (predictions === null) return null;
  const agreement = intervalOf(predictions["agreement"]);
  const accuracy = predictions["accuracy"] as Record<string, unknown> | null | undefined;
  const [a, b, change] = ["a", "b", "change"].map((side) => intervalOf(accuracy?.[side]));
  const whys = ["without_agreement", "without_accuracy"].map((name) => predictions[name]);
  return (
    <section className="panel">
      <h3>Predictions</h3>
      <dl className="figures-list">
        {agreement && <Figure name="The same answer" of={agreement} written={percent} />}
        {a && <Figure name={`${names[0]} right`} of={a} written={percent} mark="a" />}
        {b && <Figure name={`${names[1]} right`} of={b} written={percent} mark="b" />}
        {change && <Figure name="Change" of={change} written={points} />}
      </dl>
      {whys.map((why) => typeof why === "string" && <p key={why}>{shortened(why, comparison, names)}</p>)}
    </section>
  );
}

interface FigureProps {
  readonly name: string;
  readonly of: Interval;
  readonly written?: (value: number) => string;
  readonly mark?: "a" | "b";
  readonly dim?: boolean;
}

function Figure({ name, of, written = fixed, mark, dim }: FigureProps) {
  return (
    <div className={dim ? "dim" : undefined}>
      <dt>
        {mark && <Swatch of={mark} />} {name}
      </dt>
      <dd>{figure(of, written)}</dd>
    </div>
  );
}

interface KindProps {
  readonly title: string;
  readonly rows: Comparison["specials"];
  readonly names: readonly [string, string];
}

export function KindTable({ title, rows, names }: KindProps) {
  if (rows.length === 0) return null;
  return (
    <section className="panel">
      <h3>{title}</h3>
      {/* What scrolls must be reachable by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className="table" role="region" aria-label={title} tabIndex={0}>
        <table>
          <caption className="unseen">{title}: shares with 95% intervals</caption>
          <thead>
            <tr>
              <th scope="col">kind</th>
              <th scope="col">
                <Swatch of="a" /> {names[0]}
              </th>
              <th scope="col">
                <Swatch of="b" /> {names[1]}
              </th>
              <th scope="col">change</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ name, figures }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{figure(figures.a, percent)}</td>
                <td>{figure(figures.b, percent)}</td>
                <td>
                  {figure(figures.change, points)}
                  {!apart(figures.change) && <span className="dim"> – no clear change</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** What the schema leaves open, checked. */
function intervalOf(given: unknown): Interval | null {
  const found = given as Interval | null | undefined;
  return typeof found === "object" && found !== null && typeof found.n === "number" ? found : null;
}
