/** Text helpers for pictures: visible whitespace, quoting, estimated width, cuts by grapheme, number formats. */

// Widths relative to the font size, for common sans-serif system fonts; rounded up.
const NARROW = new Set([..."iljtfI.,:;'|!()[]{}/\\ -·"]);
const WIDE = new Set([..."mwMWQOG@%&"]);
const PLAIN = /^[\x21-\x7e]+$/; // most tokens: one character is one grapheme, and no segmenter is needed
const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

/** Replace line breaks, tabs and zero-width characters by visible signs; an empty token gets one too. */
export function showInvisible(token: string): string {
  if (PLAIN.test(token)) return token;
  const seen = token
    .replace(/\r?\n|\r/gu, "⏎")
    .replace(/\t/gu, "⇥")
    // Joiners inside words and emoji are kept; a lone joiner would be invisible.
    .replace(/(?<!\P{Cf})[\u200c\u200d]|[\u200c\u200d](?!\P{Cf})/gu, (sign) => `‹${formatHex(sign)}›`)
    .replace(/[\p{Cc}\p{Cs}]|(?![\u200c\u200d])\p{Cf}/gu, (sign) => `‹${formatHex(sign)}›`);
  if (seen === "") return "∅";
  return seen.trim() === "" ? "␣".repeat([...seen].length) : seen;
}

function formatHex(sign: string): string {
  return (sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
}

/** Quote a token in a sentence, isolated so that right-to-left text does not reorder the rest. */
export function quoteToken(token: string): string {
  return `“\u2068${shorten(showInvisible(token), 40)}\u2069”`;
}

/** Cut a text to `most` graphemes. */
export function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  const result = takeGraphemes(text, most + 1);
  return result.length <= most ? text : `${result.slice(0, most - 1).join("")}…`;
}

/** Estimate the width of a text. */
export function measureWidth(text: string, size: number): number {
  let sum = 0;
  for (const part of splitGraphemes(text)) sum += measureGrapheme(part);
  return sum * size;
}

function* splitGraphemes(text: string): Iterable<string> {
  if (PLAIN.test(text)) yield* text;
  else for (const { segment } of segmenter.segment(text)) yield segment;
}

/** Cut a text to a width; empty where no grapheme fits. */
export function fitWidth(text: string, size: number, most: number): string {
  // No grapheme is narrower than a quarter of the size: later ones cannot fit.
  const result = takeGraphemes(text, Math.ceil(most / (size * 0.25)) + 2);
  let sum = 0;
  let kept = 0;
  for (const part of result) {
    sum += measureGrapheme(part) * size;
    if (sum > most) break;
    kept++;
  }
  if (kept === result.length) return text;
  while (kept > 0 && measureWidth(result.slice(0, kept).join(""), size) + measureGrapheme("…") * size > most)
    kept--;
  return kept > 0 ? `${result.slice(0, kept).join("")}…` : "";
}

function takeGraphemes(text: string, most: number): string[] {
  const result: string[] = [];
  for (const part of splitGraphemes(text)) {
    result.push(part);
    if (result.length >= most) break;
  }
  return result;
}

function measureGrapheme(grapheme: string): number {
  if (NARROW.has(grapheme)) return 0.37;
  if (WIDE.has(grapheme)) return 0.92;
  const code = grapheme.codePointAt(0) ?? 0;
  if (code < 0x2e80) return grapheme.toLowerCase() === grapheme ? 0.62 : 0.7;
  return code === 0xfeff ? 0 : 1.1; // East Asian scripts and emoji
}

/** Format with three significant digits; whole numbers stay whole. */
export function formatSignificant(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size < 0.001 || size >= 1e6 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

/** Format a share as a percentage. */
export function formatShare(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1%";
  return `${value < 9.95 && value > 0 ? Number(value.toFixed(1)) : Math.round(value)}%`;
}
