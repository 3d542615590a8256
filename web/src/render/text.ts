/** Text in pictures: made visible, measured without a browser, and cut between characters as people see them. */

// Widths in parts of the font size, for the sans-serif faces that systems ship; on the wide side.
const NARROW = new Set([..."iljtfI.,:;'|!()[]{}/\\ -·"]);
const WIDE = new Set([..."mwMWQOG@%&"]);
const PLAIN = /^[\x21-\x7e]+$/; // most tokens: every sign stands for itself, and no segmenter is needed
const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

/** A token as it can be seen: line breaks, tabs and what takes no room get a sign, and an empty one does too. */
export function visible(token: string): string {
  if (PLAIN.test(token)) return token;
  const seen = token
    .replace(/\r?\n|\r/gu, "⏎")
    .replace(/\t/gu, "⇥")
    // Joiners inside of words and emoji do their work; those that stand alone are seen by nobody.
    .replace(/(?<!\P{Cf})[\u200c\u200d]|[\u200c\u200d](?!\P{Cf})/gu, (sign) => `‹${hexOf(sign)}›`)
    .replace(/[\p{Cc}\p{Cs}]|(?![\u200c\u200d])\p{Cf}/gu, (sign) => `‹${hexOf(sign)}›`);
  if (seen === "") return "∅";
  return seen.trim() === "" ? "␣".repeat([...seen].length) : seen;
}

function hexOf(sign: string): string {
  return (sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
}

/** A token inside a sentence: quoted, and isolated so that right-to-left text turns nothing else around. */
export function quoted(token: string): string {
  return `“\u2068${shorten(visible(token), 40)}\u2069”`;
}

/** At most this many characters, as people count them. */
export function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  const found = graphemes(text, most + 1);
  return found.length <= most ? text : `${found.slice(0, most - 1).join("")}…`;
}

/** About how wide a text is. */
export function widthOf(text: string, size: number): number {
  let sum = 0;
  for (const part of parts(text)) sum += partOf(part);
  return sum * size;
}

function* parts(text: string): Iterable<string> {
  if (PLAIN.test(text)) yield* text;
  else for (const { segment } of segmenter.segment(text)) yield segment;
}

/** A text cut so that it is at most so wide; nothing at all where not even one sign fits. */
export function fit(text: string, size: number, most: number): string {
  // No sign is narrower than a quarter of the size: what comes later cannot fit.
  const found = graphemes(text, Math.ceil(most / (size * 0.25)) + 2);
  let sum = 0;
  let kept = 0;
  for (const part of found) {
    sum += partOf(part) * size;
    if (sum > most) break;
    kept++;
  }
  if (kept === found.length) return text;
  while (kept > 0 && widthOf(found.slice(0, kept).join(""), size) + partOf("…") * size > most) kept--;
  return kept > 0 ? `${found.slice(0, kept).join("")}…` : "";
}

function graphemes(text: string, most: number): string[] {
  const found: string[] = [];
  for (const part of parts(text)) {
    found.push(part);
    if (found.length >= most) break;
  }
  return found;
}

function partOf(grapheme: string): number {
  if (NARROW.has(grapheme)) return 0.37;
  if (WIDE.has(grapheme)) return 0.92;
  const code = grapheme.codePointAt(0) ?? 0;
  if (code < 0x2e80) return grapheme.toLowerCase() === grapheme ? 0.62 : 0.7;
  return code === 0xfeff ? 0 : 1.1; // East Asian scripts and emoji
}

/** Three significant digits; a whole number stays one. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size < 0.001 || size >= 1e6 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

/** A share as a percentage. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1%";
  return `${value < 9.95 && value > 0 ? Number(value.toFixed(1)) : Math.round(value)}%`;
}
