/** A text as it stands on the page: words tinted by one method or several, underlined by where the flow ends. */

import { line, text } from "./marks";
import type { Mark, Scene, Table, Theme } from "./scene";
import { figure, percent, widthOf } from "./text";
import { type Scale, shadeOf, tint } from "./tint";

export interface StripUnit {
  readonly text: string;
  readonly before: string; // what stands between it and the unit before
  readonly segment: number;
}

export interface Strip {
  readonly name: string; // whose tints they are
  readonly scores: readonly number[]; // by unit
  readonly shares: readonly number[] | null; // of the traced flow, by unit
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

export function strips(units: readonly StripUnit[], all: readonly Strip[], options: Options): Scene {
  const { width, theme } = options;
  const marks: Mark[] = [];
  let y = 12;
  for (const strip of all) {
    marks.push(text(LEFT, y + 8, strip.name, theme, { size: 12, bold: true, fill: theme.ink }));
    const laid = words(units, strip, y + 34, options);
    const ramp = legend(strip, laid.bottom + 12, theme);
    const said = [strip.scale.legend, strip.scale.note].filter(
      (words) => words !== undefined && words !== null,
    );
    said.forEach((words, row) => marks.push(text(LEFT, laid.bottom + 32 + 15 * row, words, theme)));
    marks.push(...laid.marks, ...ramp);
    y = laid.bottom + 34 + 15 * said.length;
  }
  return {
    width,
    height: y,
    marks,
    label: `The text of ${units.length} units, tinted by ${all.map(({ name }) => name).join(", ")}.`,
    get table() {
      return tableOf(units, all);
    },
    edges: [],
  };
}

interface Laid {
  readonly marks: Mark[];
  readonly bottom: number;
}

/** Words one after the other, and on the next line where they do not fit; a segment begins a line of its own. */
function words(units: readonly StripUnit[], strip: Strip, top: number, { width, theme }: Options): Laid {
  const marks: Mark[] = [];
  const most = Math.max(1e-9, ...(strip.shares ?? []));
  let [x, y] = [LEFT, top];
  units.forEach((unit, index) => {
    const isNewSegment = index > 0 && units[index - 1]?.segment !== unit.segment;
    const breaks = unit.before.split("\n").length - 1;
    const wide = widthOf(unit.text, SIZE) + 2 * PAD;
    const gap = x === LEFT ? 0 : widthOf(unit.before.replace(/\s+/gu, " "), SIZE);
    if (isNewSegment || breaks > 0 || x + gap + wide > width - LEFT) [x, y] = [LEFT, y + LINE];
    else x += gap;
    const score = strip.scores[index] ?? 0;
    const { background, color } = tint(shadeOf(score, strip.scale), strip.scale.signed, theme);
    const share = strip.shares?.[index] ?? 0;
    const ends = strip.shares ? `; ${percent(share)} of the traced flow ends here` : "";
    const title = `${unit.text}: ${figure(score)}${ends}`;
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
    marks.push(text(x + wide / 2, y, unit.text, theme, { size: SIZE, fill: color, anchor: "middle" }));
    const under = thickness(share / most);
    if (under > 0) marks.push({ kind: "rect", x, y: y + 6, width: wide, height: under, fill: theme.flow });
    x += wide;
  });
  return { marks, bottom: y + 10 };
}

/** Pixels of an underline, in steps that the eye can tell apart. */
export function thickness(share: number): number {
  return share < 0.02 ? 0 : Math.max(1, Math.round(5 * share));
}

export interface Ends {
  readonly low: string;
  readonly high: string;
}

/** What the two ends of a scale mean. */
export function endsOf({ signed, low, high }: Scale, target: string): Ends {
  return signed
    ? { low: `−${figure(high)}, against`, high: `${figure(high)}, for ${target}` }
    : { low: figure(low), high: `${figure(high)}; no sign: may count for ${target} or against` };
}

/** The shades that a legend shows. */
export function rampOf({ signed }: Scale): readonly number[] {
  return signed ? RAMP : RAMP.slice(3);
}

function legend({ scale, shares, target }: Strip, y: number, theme: Theme): Mark[] {
  const { low, high } = endsOf(scale, target);
  const marks: Mark[] = [text(LEFT, y + 4, low, theme)];
  let x = LEFT + widthOf(low, 11) + 6;
  for (const shade of rampOf(scale)) {
    const fill = tint(shade, scale.signed, theme).background;
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
  x += 6 + widthOf(high, 11) + 18;
  if (shares) {
    marks.push(line(x, y + 2, x + 22, y + 2, theme.flow, 4));
    marks.push(text(x + 28, y + 4, "what of the traced flow ends there", theme));
  }
  return marks;
}

function tableOf(units: readonly StripUnit[], all: readonly Strip[]): Table {
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
    rows: units.map((unit, index) => [
      index,
      unit.segment === 0 ? "A" : "B",
      unit.text,
      ...all.map(({ scores }) => scores[index] ?? ""),
      ...underlined.map(({ shares }) => shares?.[index] ?? ""),
    ]),
  };
}
