/** Number formats: plain, percent, signed, points, counts, and means with their n and interval. */

import type { Interval } from "../api/types";

/** Function that formats a number. */
export type NumberFormat = (value: number) => string;

/** Format with three digits, without an exponent where possible. */
export const formatPlain: NumberFormat = (value) => {
  if (value === 0) return "0";
  if (Math.abs(value) < 1e-3) return replaceHyphens(value.toExponential(1));
  return replaceHyphens(String(Number(value.toPrecision(3))));
};

/** Format a share as a percentage with one decimal. */
export const formatPercent: NumberFormat = (value) => `${replaceHyphens((100 * value).toFixed(1))}%`;

/** Format with three decimals, for columns. */
export const formatFixed: NumberFormat = (value) => replaceHyphens(value.toFixed(3));

/** Format with a sign, for changes. */
export const formatSigned: NumberFormat = (value) =>
  value > 0 ? `+${formatPlain(value)}` : formatPlain(value);

/** Format a change of a share in percentage points. */
export const formatPoints: NumberFormat = (value) =>
  value > 0 ? `+${formatPercent(value)}` : formatPercent(value);

/** Format mean and interval, such as "0.31 (0.28 to 0.35, n = 100)". */
export function formatEstimate(interval: Interval, format: NumberFormat = formatPlain): string {
  if (interval.mean === null) return `not known (n = ${interval.n})`;
  const mean = format(interval.mean);
  if (interval.low === null || interval.high === null)
    return `${mean} (n = ${interval.n}, too few for an interval)`;
  return `${mean} (${format(interval.low)} to ${format(interval.high)}, n = ${interval.n})`;
}

/** Format the interval alone, such as "0.28 to 0.35"; a dash where none is known. */
export function formatInterval(interval: Interval, format: NumberFormat = formatPlain): string {
  return interval.low === null || interval.high === null
    ? "–"
    : `${format(interval.low)} to ${format(interval.high)}`;
}

/** Whether the whole interval lies on one side of zero. */
export function excludesZero(interval: Interval): boolean {
  return interval.low !== null && interval.high !== null && (interval.low > 0 || interval.high < 0);
}

/** Format a number with its noun, such as "1 edge" or "2 edges". */
export function formatCount(number: number, one: string, many = `${one}s`): string {
  return `${formatWhole(number)} ${number === 1 ? one : many}`;
}

/** Format a whole number with thin spaces between thousands. */
export function formatWhole(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Replace hyphens by minus signs, also in exponents. */
export function replaceHyphens(text: string): string {
  return text.replaceAll("-", "−");
}
