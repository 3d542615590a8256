/** Menu of how many rows a job takes: all, the first, or a random sample; and the choice of the limit. */

import { formatWhole } from "../shell/numberFormat";

const STEPS = [20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

interface Props {
  readonly label: string; // distinct where a page has two of them
  readonly rows: number;
  readonly value: number;
  readonly most: number;
  readonly drawn?: boolean; // a random sample, rather than the first rows
  readonly onChange: (limit: number) => void;
}

/** Menu of row limits. */
export function RowLimit({ label, rows, value, most, drawn, onChange }: Props) {
  const steps = listLimits(rows, most);
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChange(Number(event.target.value))}>
        {(steps.includes(value) ? steps : [value, ...steps].sort((a, b) => a - b)).map((limit) => (
          <option key={limit} value={limit}>
            {limit >= rows
              ? `all ${formatWhole(rows)}`
              : drawn
                ? `${formatWhole(limit)}, drawn by lot`
                : `the first ${formatWhole(limit)}`}
          </option>
        ))}
      </select>
    </label>
  );
}

/** List the steps below the number of rows, and all rows where the server accepts as many. */
export function listLimits(rows: number, most: number): readonly number[] {
  const steps = STEPS.filter((step) => step < rows && step <= most);
  return rows <= most ? [...steps, Math.max(1, rows)] : steps;
}

/** Choose the limit of the link where file and server allow it, else the default. */
export function resolveLimit(requested: number | null, rows: number, usual: number, most: number): number {
  return Math.max(1, Math.min(requested ?? usual, rows, most));
}
