/** Today's date as text, for the captions of exported pictures. */

/** Format today's local date, such as 2026-01-31. */
export function formatToday(now = new Date()): string {
  const pad = (part: number): string => String(part).padStart(2, "0");
  return `${now.getFullYear()}-${pad(now.getMonth() + 1)}-${pad(now.getDate())}`;
}
