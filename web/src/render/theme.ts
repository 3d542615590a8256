/** Light and dark theme with colour scales safe for colour blindness; colour mixing, WCAG contrast, ink. */

import type { Theme } from "./scene";

type Rgb = readonly [number, number, number];

// Cividis at twelve even steps (Nuñez, Anderton & Renslow 2018).
const CIVIDIS = [
  "#00204d", "#00306f", "#2a406c", "#48526b", "#5e626e", "#727374",
  "#878479", "#9e9677", "#b6a971", "#d0be67", "#ead357", "#ffea46",
].map(parseHex); // prettier-ignore

/** Parse #rrggbb. */
export function parseHex(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function formatHex(colour: Rgb): string {
  return `#${colour.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;
}

/** Mix two colours, both #rrggbb. */
export function mixColours(from: string, to: string, share: number): string {
  const [a, b] = [parseHex(from), parseHex(to)];
  const at = clamp(share, 0, 1);
  return formatHex([0, 1, 2].map((i) => (a[i] ?? 0) + ((b[i] ?? 0) - (a[i] ?? 0)) * at) as unknown as Rgb);
}

function clamp(value: number, low: number, high: number): number {
  return Number.isNaN(value) ? low : Math.min(high, Math.max(low, value));
}

function pickCividis(share: number): string {
  const at = clamp(share, 0, 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  return mixColours(formatHex(CIVIDIS[low] ?? [0, 0, 0]), formatHex(CIVIDIS[low + 1] ?? [0, 0, 0]), at - low);
}

/** Build a scale from paper into cividis; it darkens on light paper and brightens on dark. */
function buildSequential(paper: string, isDark: boolean): (share: number) => string {
  return (share) => {
    const at = clamp(share, 0, 1);
    return mixColours(pickCividis(isDark ? at : 1 - at), paper, (1 - at) ** 2);
  };
}

function buildDiverging(negative: string, paper: string, positive: string): (value: number) => string {
  return (value) => mixColours(paper, value < 0 ? negative : positive, Math.abs(clamp(value, -1, 1)));
}

/** Light theme. */
export const LIGHT: Theme = {
  name: "light",
  paper: "#ffffff",
  ink: "#1c2024",
  dim: "#5b6168",
  rule: "#d5d9de",
  accent: "#00776b",
  flow: "#34558b",
  a: "#e66101",
  b: "#5e3c99",
  shared: "#80868d",
  sequential: buildSequential("#ffffff", false),
  neutral: (share) => mixColours("#ffffff", "#8d939b", share),
  signed: buildDiverging("#d55e00", "#ffffff", "#0072b2"),
  difference: buildDiverging("#e66101", "#ffffff", "#5e3c99"),
};

/** Dark theme. */
export const DARK: Theme = {
  name: "dark",
  paper: "#15181c",
  ink: "#e6e8eb",
  dim: "#9ba2aa",
  rule: "#363c44",
  accent: "#45d1bd",
  flow: "#8cabdc",
  a: "#fd9a4d",
  b: "#b79cf0",
  shared: "#878d94",
  sequential: buildSequential("#15181c", true),
  neutral: (share) => mixColours("#15181c", "#6d757e", share),
  signed: buildDiverging("#f0782a", "#15181c", "#3d9fe0"),
  difference: buildDiverging("#fd9a4d", "#15181c", "#b79cf0"),
};

/** Compute the WCAG contrast ratio of two colours, 1 to 21. */
export function computeContrast(one: string, two: string): number {
  const [a, b] = [computeLuminance(one), computeLuminance(two)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** Choose black or white ink; one of them always has 4.5:1. */
export function chooseInk(background: string): "#000000" | "#ffffff" {
  return computeContrast(background, "#000000") >= computeContrast(background, "#ffffff")
    ? "#000000"
    : "#ffffff";
}

function computeLuminance(colour: string): number {
  const [r, g, b] = parseHex(colour).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}
