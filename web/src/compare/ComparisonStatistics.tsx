/** Statistics panels of two models over a data set: edge overlap, word agreement, accuracy, attention by kind. */

import type { Comparison, Interval } from "../api/types";
import { HelpLink } from "../shell/HelpLink";
import {
  excludesZero,
  formatEstimate,
  formatFixed,
  formatPercent,
  formatPoints,
} from "../shell/numberFormat";
import { shortenModelNames } from "./modelPair";
import { describeSpecials } from "./edgeSets";
import { Swatch } from "./Swatch";

interface Props {
  readonly comparison: Comparison;
  readonly names: readonly [string, string];
}

/** Show how many edges of the flow the two models share. */
export function Overlap({ comparison: { overlap }, names }: Props) {
  return (
    <section className="panel">
      <h3>Flow: {formatPercent(overlap.coverage)} covered</h3>
      <dl className="figures-list">
        <StatisticItem name="Shared edges (Jaccard)" interval={overlap.jaccard} />
        <StatisticItem name="Random edges" interval={overlap.chance} dim />
        <StatisticItem
          name={`Only in ${names[0]}`}
          interval={overlap.only_a}
          format={formatPercent}
          mark="a"
        />
        <StatisticItem
          name={`Only in ${names[1]}`}
          interval={overlap.only_b}
          format={formatPercent}
          mark="b"
        />
      </dl>
      <p className="dim">
        {describeSpecials(overlap.specials)} If they {overlap.specials ? "did not" : "did"}:
      </p>
      <dl className="figures-list">
        <StatisticItem name="Shared edges (Jaccard)" interval={overlap.other.jaccard} dim />
        <StatisticItem name="Random edges" interval={overlap.other.chance} dim />
      </dl>
    </section>
  );
}

/** Show how far the models' word rankings agree. */
export function WordAgreement({ comparison, names }: Props) {
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
          <StatisticItem name="Kendall's tau-b" interval={attribution.tau} />
          <div className="dim">
            <dt>Random rankings</dt>
            <dd>0</dd>
          </div>
          <StatisticItem
            name={`Top ${attribution.k} in common`}
            interval={attribution.top}
            format={formatPercent}
          />
          <StatisticItem name="Random rankings" interval={attribution.chance} format={formatPercent} dim />
        </dl>
      ) : (
        <p className="empty">{shortenModelNames(why ?? "Not compared.", comparison, names)}</p>
      )}
    </section>
  );
}

/** Show accuracy of both models, and how often they give the same answer. */
export function Outcomes({ comparison, names }: Props) {
  const { predictions } = comparison;
  if (predictions === null) return null;
  const agreement = parseInterval(predictions["agreement"]);
  const accuracy = predictions["accuracy"] as Record<string, unknown> | null | undefined;
  const [a, b, change] = ["a", "b", "change"].map((side) => parseInterval(accuracy?.[side]));
  const whys = ["without_agreement", "without_accuracy"].map((name) => predictions[name]);
  return (
    <section className="panel">
      <h3>Predictions</h3>
      <dl className="figures-list">
        {agreement && <StatisticItem name="The same answer" interval={agreement} format={formatPercent} />}
        {a && <StatisticItem name={`${names[0]} right`} interval={a} format={formatPercent} mark="a" />}
        {b && <StatisticItem name={`${names[1]} right`} interval={b} format={formatPercent} mark="b" />}
        {change && <StatisticItem name="Change" interval={change} format={formatPoints} />}
      </dl>
      {whys.map(
        (why) => typeof why === "string" && <p key={why}>{shortenModelNames(why, comparison, names)}</p>,
      )}
    </section>
  );
}

interface StatisticItemProps {
  readonly name: string;
  readonly interval: Interval;
  readonly format?: (value: number) => string;
  readonly mark?: "a" | "b";
  readonly dim?: boolean;
}

function StatisticItem({ name, interval, format = formatFixed, mark, dim }: StatisticItemProps) {
  return (
    <div className={dim ? "dim" : undefined}>
      <dt>
        {mark && <Swatch of={mark} />} {name}
      </dt>
      <dd>{formatEstimate(interval, format)}</dd>
    </div>
  );
}

interface KindProps {
  readonly title: string;
  readonly rows: Comparison["specials"];
  readonly names: readonly [string, string];
}

/** Table of attention shares by kind, for both models with intervals. */
export function KindTable({ title, rows, names }: KindProps) {
  if (rows.length === 0) return null;
  return (
    <section className="panel">
      <h3>{title}</h3>
      {/* Scrollable areas must be reachable by keyboard. */}
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
                <td>{formatEstimate(figures.a, formatPercent)}</td>
                <td>{formatEstimate(figures.b, formatPercent)}</td>
                <td>
                  {formatEstimate(figures.change, formatPoints)}
                  {!excludesZero(figures.change) && <span className="dim"> – no clear change</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** Parse an interval from a part of the answer that the schema leaves untyped. */
function parseInterval(value: unknown): Interval | null {
  const interval = value as Interval | null | undefined;
  return typeof interval === "object" && interval !== null && typeof interval.n === "number"
    ? interval
    : null;
}
