/** How many rows are taken: all of a small file, the first so many of a large one. */

import { grouped } from "../shell/figures";

const STEPS = [20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

interface Props {
  readonly label: string; // on a page with two of them, each has its own
  readonly rows: number;
  readonly value: number;
  readonly most: number;
  readonly drawn?: boolean; // by lot, rather than from the top
  readonly onChange: (limit: number) => void;
}

export function Limit({ label, rows, value, most, drawn, onChange }: Props) {
  const steps = limitsFor(rows, most);
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChange(Number(event.target.value))}>
        {(steps.includes(value) ? steps : [value, ...steps].sort((a, b) => a - b)).map((limit) => (
          <option key={limit} value={limit}>
            {limit >= rows
              ? `all ${grouped(rows)}`
              : drawn
                ? `${grouped(limit)}, drawn by lot`
                : `the first ${grouped(limit)}`}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Steps below the number of rows, and all of them where the server takes so many. */
export function limitsFor(rows: number, most: number): readonly number[] {
  const steps = STEPS.filter((step) => step < rows && step <= most);
  return rows <= most ? [...steps, Math.max(1, rows)] : steps;
}

/** As many as the link says and the file and the server have; else as many as are there, but no more than is usual. */
export function limitOf(wanted: number | null, rows: number, usual: number, most: number): number {
  return Math.max(1, Math.min(wanted ?? usual, rows, most));
}
