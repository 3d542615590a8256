/** How far methods agree: each with each, once. */

import { Fragment } from "react";

import type { Agreement } from "../api/types";
import { CsvButton } from "../shell/CsvButton";
import { percent, plain } from "../shell/figures";

interface Props {
  readonly agreement: readonly Agreement[];
  readonly caption: string;
  readonly units?: string;
}

const COLUMNS = ["method", "other method", "tau", "k", "shared of the top k", "by chance"];

export function AgreementTable({ agreement, caption, units = "words" }: Props) {
  const [first] = agreement;
  if (!first) return null;
  const names = [...new Set(agreement.flatMap(({ a, b }) => [a, b]))];
  const of = (one: string, two: string): Agreement | undefined =>
    agreement.find(({ a, b }) => (a === one && b === two) || (a === two && b === one));
  const rows = agreement.map(({ a, b, tau, k, top, chance }) => [a, b, tau ?? "", k, top, chance]);
  return (
    <div className="agreement">
      <p className="dim">
        How far the methods agree: above the diagonal Kendall’s τ of all {units}; below it, what they share of
        the top {first.k} (and by chance).
      </p>
      <table aria-label="How far the methods agree">
        <thead>
          <tr>
            <td />
            {names.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {names.map((name, row) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {names.map((other, column) => (
                <Fragment key={other}>{cell(of(name, other), row, column)}</Fragment>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <CsvButton name="agreement" caption={caption} table={{ columns: COLUMNS, rows }} />
    </div>
  );
}

function cell(found: Agreement | undefined, row: number, column: number) {
  if (!found) return <td className="dim">·</td>;
  if (row > column)
    return (
      <td>
        {percent(found.top)} <span className="dim">({percent(found.chance)})</span>
      </td>
    );
  if (found.tau === null) return <td title="No τ: one of them says the same of every word">none</td>;
  return <td>τ {plain(found.tau)}</td>;
}
