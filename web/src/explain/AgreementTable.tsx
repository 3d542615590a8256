/** Table of the agreement of methods: Kendall's tau and shared top k of each pair, with CSV download. */

import { Fragment } from "react";

import type { Agreement } from "../api/types";
import { CsvButton } from "../shell/CsvButton";
import { formatPercent, formatPlain } from "../shell/numberFormat";

interface Props {
  readonly agreement: readonly Agreement[];
  readonly caption: string;
  readonly features?: string;
}

const COLUMNS = ["method", "other method", "tau", "k", "shared of the top k", "by chance"];

/** Show rank correlation and overlap of every pair of methods. */
export function AgreementTable({ agreement, caption, features = "words" }: Props) {
  const [first] = agreement;
  if (!first) return null;
  const names = [...new Set(agreement.flatMap(({ a, b }) => [a, b]))];
  const findPair = (one: string, two: string): Agreement | undefined =>
    agreement.find(({ a, b }) => (a === one && b === two) || (a === two && b === one));
  const rows = agreement.map(({ a, b, tau, k, top, chance }) => [a, b, tau ?? "", k, top, chance]);
  return (
    <div className="agreement">
      <p className="dim">
        How far the methods agree: above the diagonal Kendall’s τ of all {features}; below it, what they share
        of the top {first.k} (and by chance).
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
                <Fragment key={other}>{renderCell(findPair(name, other), row, column)}</Fragment>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <CsvButton name="agreement" caption={caption} table={{ columns: COLUMNS, rows }} />
    </div>
  );
}

function renderCell(result: Agreement | undefined, row: number, column: number) {
  if (!result) return <td className="dim">·</td>;
  if (row > column)
    return (
      <td>
        {formatPercent(result.top)} <span className="dim">({formatPercent(result.chance)})</span>
      </td>
    );
  if (result.tau === null) return <td title="No τ: one of them says the same of every word">none</td>;
  return <td>τ {formatPlain(result.tau)}</td>;
}
