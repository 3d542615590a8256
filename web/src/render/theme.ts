/** Colours that survive colour blindness, print and the dark. */

import type { Theme } from "./scene";

type Rgb = readonly [number, number, number];

// Cividis at twelve even steps (Nuñez, Anderton & Renslow 2018).
const CIVIDIS = [
  "#00204d", "#00306f", "#2a406c", "#48526b", "#5e626e", "#727374",
  "#878479", "#9e9677", "#b6a971", "#d0be67", "#ead357", "#ffea46",
].map(rgb); // prettier-ignore

export function rgb(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function hex(colour: Rgb): string {
  return `#${colour.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;
}

/** A colour between two, both given as #rrggbb. */
export function mix(from: string, to: string, share: number): string {
  const [a, b] = [rgb(from), rgb(to)];
  const at = clamp(share, 0, 1);
  return hex([0, 1, 2].map((i) => (a[i] ?? 0) + ((b[i] ?? 0) - (a[i] ?? 0)) * at) as unknown as Rgb);
}

function clamp(value: number, low: number, high: number): number {
  return Number.isNaN(value) ? low : Math.min(high, Math.max(low, value));
}

function cividis(share: number): string {
  const at = clamp(share, 0, 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  return mix(hex(CIVIDIS[low] ?? [0, 0, 0]), hex(CIVIDIS[low + 1] ?? [0, 0, 0]), at - low);
}

/** From the paper's colour into cividis, so that nothing looks like nothing; light grows darker, dark lighter. */
function fading(paper: string, isDark: boolean): (share: number) => string {
  return (share) => {
    const at = clamp(share, 0, 1);
    return mix(cividis(isDark ? at : 1 - at), paper, (1 - at) ** 2);
  };
}

function diverging(negative: string, paper: string, positive: string): (value: number) => string {
  return (value) => mix(paper, value < 0 ? negative : positive, Math.abs(clamp(value, -1, 1)));
}

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
  sequential: fading("#ffffff", false),
  neutral: (share) => mix("#ffffff", "#8d939b", share),
  signed: diverging("#d55e00", "#ffffff", "#0072b2"),
  difference: diverging("#e66101", "#ffffff", "#5e3c99"),
};

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
  sequential: fading("#15181c", true),
  neutral: (share) => mix("#15181c", "#6d757e", share),
  signed: diverging("#f0782a", "#15181c", "#3d9fe0"),
  difference: diverging("#fd9a4d", "#15181c", "#b79cf0"),
};

/** WCAG's contrast of two colours, 1 to 21. */
export function contrast(one: string, two: string): number {
  const [a, b] = [luminance(one), luminance(two)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** Ink that can be read on this background: black or white, one of which always has 4.5:1. */
export function inkOn(background: string): "#000000" | "#ffffff" {
  return contrast(background, "#000000") >= contrast(background, "#ffffff") ? "#000000" : "#ffffff";
}

function luminance(colour: string): number {
  const [r, g, b] = rgb(colour).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}
