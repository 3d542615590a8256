/** Figures in words. A mean never stands without its n; where no interval is known, it says so. */

import type { Interval } from "../api/types";

export type Written = (value: number) => string;

/** Three digits, without an exponent where one can do without. */
export const plain: Written = (value) => {
  if (value === 0) return "0";
  if (Math.abs(value) < 1e-3) return minus(value.toExponential(1));
  return minus(String(Number(value.toPrecision(3))));
};

export const percent: Written = (value) => `${minus((100 * value).toFixed(1))}%`;

/** Three decimals, for figures that stand under each other. */
export const fixed: Written = (value) => minus(value.toFixed(3));

/** With its sign, for changes. */
export const signed: Written = (value) => (value > 0 ? `+${plain(value)}` : plain(value));

/** A change of a share, in points of a hundred. */
export const points: Written = (value) => (value > 0 ? `+${percent(value)}` : percent(value));

/** Such as "0.31 (0.28 to 0.35, n = 100)". */
export function figure(of: Interval, written: Written = plain): string {
  if (of.mean === null) return `not known (n = ${of.n})`;
  const mean = written(of.mean);
  if (of.low === null || of.high === null) return `${mean} (n = ${of.n}, too few for an interval)`;
  return `${mean} (${written(of.low)} to ${written(of.high)}, n = ${of.n})`;
}

/** The interval alone, such as "0.28 to 0.35"; a dash where none is known. */
export function range(of: Interval, written: Written = plain): string {
  return of.low === null || of.high === null ? "–" : `${written(of.low)} to ${written(of.high)}`;
}

/** Whether the whole interval lies on one side of zero. */
export function apart(of: Interval): boolean {
  return of.low !== null && of.high !== null && (of.low > 0 || of.high < 0);
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${grouped(number)} ${number === 1 ? one : many}`;
}

/** With thin spaces between thousands, as 10 000. */
export function grouped(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** With the sign of a minus rather than a hyphen, in an exponent too. */
export function minus(text: string): string {
  return text.replaceAll("-", "−");
}
