/** How many rows are taken: all of a small file, the first so many of a large one. */

import { useState } from "react";

import { grouped } from "../shell/figures";

const STEPS = [20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

interface Props {
  readonly rows: number;
  readonly value: number;
  readonly most: number;
  readonly onChange: (limit: number) => void;
}

export function Limit({ rows, value, most, onChange }: Props) {
  return (
    <label>
      Rows{" "}
      <select value={value} onChange={(event) => onChange(Number(event.target.value))}>
        {limitsFor(rows, most).map((limit) => (
          <option key={limit} value={limit}>
            {limit >= rows ? `all ${grouped(rows)}` : `the first ${grouped(limit)}`}
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

/** Begins with as many as are there, but no more than `usual`. */
export function useLimit(rows: number, usual: number): readonly [number, (limit: number) => void] {
  return useState(Math.max(1, Math.min(rows, usual)));
}
