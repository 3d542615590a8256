/** Picture of a text, for export: words tinted by one method or several, underlined by their share of the flow. */

import { line, text } from "./marks";
import type { Mark, Scene, TableData, Theme } from "./scene";
import { formatSignificant, formatShare, measureWidth } from "./text";
import { type Scale, computeShade, tintShade } from "./tint";

/** One word or token of a strip. */
export interface StripFeature {
  readonly text: string;
  readonly before: string; // text between it and the previous feature
  readonly segment: number;
}

/** Scores of one method, and shares of the flow. */
export interface WordStrip {
  readonly name: string; // name of the method or model
  readonly scores: readonly number[]; // by feature
  readonly shares: readonly number[] | null; // shares of the traced flow, by feature
  readonly scale: Scale;
  readonly target: string;
}

interface Options {
  readonly width: number;
  readonly theme: Theme;
}

const SIZE = 15;
const LINE = 29;
const LEFT = 10;
const PAD = 2;
const RAMP = [-1, -0.6, -0.25, 0, 0.25, 0.6, 1];

/** Draw one strip for each method. */
export function drawStrips(
  features: readonly StripFeature[],
  all: readonly WordStrip[],
  options: Options,
): Scene {
  const { width, theme } = options;
  const marks: Mark[] = [];
  let y = 12;
  for (const strip of all) {
    marks.push(text(LEFT, y + 8, strip.name, theme, { size: 12, bold: true, fill: theme.ink }));
    const laid = layoutWords(features, strip, y + 34, options);
    const ramp = drawLegend(strip, laid.bottom + 12, theme);
    const names = [strip.scale.legend, strip.scale.note].filter(
      (words) => words !== undefined && words !== null,
    );
    names.forEach((words, row) => marks.push(text(LEFT, laid.bottom + 32 + 15 * row, words, theme)));
    marks.push(...laid.marks, ...ramp);
    y = laid.bottom + 34 + 15 * names.length;
  }
  return {
    width,
    height: y,
    marks,
    label: `The text of ${features.length} units, tinted by ${all.map(({ name }) => name).join(", ")}.`,
    get table() {
      return buildTable(features, all);
    },
    edges: [],
  };
}

interface WordLayout {
  readonly marks: Mark[];
  readonly bottom: number;
}

/** Lay out the words in lines; a segment begins a new line. */
function layoutWords(
  features: readonly StripFeature[],
  strip: WordStrip,
  top: number,
  { width, theme }: Options,
): WordLayout {
  const marks: Mark[] = [];
  const most = Math.max(1e-9, ...(strip.shares ?? []));
  let [x, y] = [LEFT, top];
  features.forEach((feature, index) => {
    const isNewSegment = index > 0 && features[index - 1]?.segment !== feature.segment;
    const breaks = feature.before.split("\n").length - 1;
    const wide = measureWidth(feature.text, SIZE) + 2 * PAD;
    const gap = x === LEFT ? 0 : measureWidth(feature.before.replace(/\s+/gu, " "), SIZE);
    if (isNewSegment || breaks > 0 || x + gap + wide > width - LEFT) [x, y] = [LEFT, y + LINE];
    else x += gap;
    const score = strip.scores[index] ?? 0;
    const { background, color } = tintShade(computeShade(score, strip.scale), strip.scale.signed, theme);
    const share = strip.shares?.[index] ?? 0;
    const ends = strip.shares ? `; ${formatShare(share)} of the traced flow ends here` : "";
    const title = `${feature.text}: ${formatSignificant(score)}${ends}`;
    marks.push({
      kind: "rect",
      x,
      y: y - SIZE,
      width: wide,
      height: SIZE + 6,
      fill: background,
      radius: 2,
      title,
    });
    marks.push(text(x + wide / 2, y, feature.text, theme, { size: SIZE, fill: color, anchor: "middle" }));
    const under = chooseThickness(share / most);
    if (under > 0) marks.push({ kind: "rect", x, y: y + 6, width: wide, height: under, fill: theme.flow });
    x += wide;
  });
  return { marks, bottom: y + 10 };
}

/** Choose the underline's thickness in pixels, in distinguishable steps. */
export function chooseThickness(share: number): number {
  return share < 0.02 ? 0 : Math.max(1, Math.round(5 * share));
}

/** Meanings of both ends of a scale. */
export interface ScaleEnds {
  readonly low: string;
  readonly high: string;
}

/** Describe both ends of a scale. */
export function describeScaleEnds({ signed, low, high }: Scale, target: string): ScaleEnds {
  return signed
    ? { low: `−${formatSignificant(high)}, against`, high: `${formatSignificant(high)}, for ${target}` }
    : {
        low: formatSignificant(low),
        high: `${formatSignificant(high)}; no sign: may count for ${target} or against`,
      };
}

/** List the shades of a legend. */
export function listShades({ signed }: Scale): readonly number[] {
  return signed ? RAMP : RAMP.slice(3);
}

function drawLegend({ scale, shares, target }: WordStrip, y: number, theme: Theme): Mark[] {
  const { low, high } = describeScaleEnds(scale, target);
  const marks: Mark[] = [text(LEFT, y + 4, low, theme)];
  let x = LEFT + measureWidth(low, 11) + 6;
  for (const shade of listShades(scale)) {
    const fill = tintShade(shade, scale.signed, theme).background;
    marks.push({
      kind: "rect",
      x,
      y: y - 5,
      width: 16,
      height: 10,
      fill,
      stroke: theme.rule,
      strokeWidth: 0.5,
    });
    x += 16;
  }
  marks.push(text(x + 6, y + 4, high, theme));
  x += 6 + measureWidth(high, 11) + 18;
  if (shares) {
    marks.push(line(x, y + 2, x + 22, y + 2, theme.flow, 4));
    marks.push(text(x + 28, y + 4, "what of the traced flow ends there", theme));
  }
  return marks;
}

function buildTable(features: readonly StripFeature[], all: readonly WordStrip[]): TableData {
  const flows = all.filter(({ shares }) => shares !== null);
  // One trace underlines all methods of a model; two models have each their own.
  const isOne = flows.every(({ shares }) => shares === flows[0]?.shares);
  const underlined = isOne ? flows.slice(0, 1) : flows;
  const ends = (name: string): string => (isOne ? "flow that ends there" : `flow that ends there, ${name}`);
  return {
    columns: [
      "place",
      "segment",
      "text",
      ...all.map(({ name }) => name),
      ...underlined.map(({ name }) => ends(name)),
    ],
    rows: features.map((feature, index) => [
      index,
      feature.segment === 0 ? "A" : "B",
      feature.text,
      ...all.map(({ scores }) => scores[index] ?? ""),
      ...underlined.map(({ shares }) => shares?.[index] ?? ""),
    ]),
  };
}
