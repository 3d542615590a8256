/** Bar chart with names, numbers and intervals. */

import { ticks } from "d3-array";

import { line, text } from "./marks";
import type { Mark, Scene, Theme } from "./scene";
import { formatSignificant, fitWidth, measureWidth } from "./text";

/** One bar, with its interval where there is one. */
export interface Bar {
  readonly label: string;
  readonly value: number | null;
  readonly low?: number | null;
  readonly high?: number | null;
  readonly title?: string;
}

/** Options of a bar chart. */
export interface BarOptions {
  readonly width: number;
  readonly theme: Theme;
  readonly title: string;
  readonly signed?: boolean;
  readonly least?: number; // ends of the axis; absent: set by the values
  readonly most?: number;
  readonly axis?: boolean; // tick numbers below the bars
  readonly format?: (value: number) => string; // number format of the chart
}

const ROW = 20;
const SIZE = 12;
const AXIS = 18;

/** Draw a bar chart. */
export function drawBars(items: readonly Bar[], options: BarOptions): Scene {
  const { theme, width, title } = options;
  // Minus signs instead of hyphens.
  const format: NumberFormat = (value) => (options.format ?? formatSignificant)(value).replaceAll("-", "−");
  const names =
    Math.min(width * 0.4, Math.max(24, ...items.map((item) => measureWidth(item.label, SIZE)))) + 14;
  const numbers = 52;
  const ends = items
    .flatMap(({ value, low, high }) => [value, low, high])
    .filter((value) => typeof value === "number");
  const least = Math.min(0, options.least ?? Math.min(0, ...ends));
  const most = Math.max(0, options.most ?? Math.max(0, ...ends)) || (least < 0 ? 0 : 1);
  const room = Math.max(40, width - names - numbers - 8);
  const at = (value: number): number =>
    names + ((Math.min(most, Math.max(least, value)) - least) / (most - least)) * room;

  const bottom = 4 + items.length * ROW;
  const marks: Mark[] = [line(at(0), 4, at(0), bottom, theme.rule)];
  if (options.axis) {
    marks.push(line(names, bottom, names + room, bottom, theme.rule));
    for (const tick of ticks(least, most, Math.max(2, Math.min(5, room / 60)))) {
      marks.push(line(at(tick), bottom, at(tick), bottom + 3, theme.dim));
      marks.push(text(at(tick), bottom + 14, format(tick), theme, { anchor: "middle", size: 10 }));
    }
  }
  items.forEach((item, row) => {
    const middle = 4 + row * ROW + ROW / 2;
    const hit = { kind: "cell", row, column: 0 } as const;
    const words = item.title ?? `${item.label}: ${formatInterval(item, format)}`;
    marks.push(
      text(names - 8, middle + 4, fitWidth(item.label, SIZE, names - 10), theme, {
        size: SIZE,
        fill: theme.ink,
        anchor: "end",
      }),
    );
    marks.push(text(names + room + 8, middle + 4, item.value === null ? "–" : format(item.value), theme));
    if (item.value === null) return;
    const [x1, x2] = [Math.min(at(0), at(item.value)), Math.max(at(0), at(item.value))];
    const fill = options.signed ? theme.signed(item.value < 0 ? -0.8 : 0.8) : theme.flow;
    marks.push({
      kind: "rect",
      x: x1,
      y: middle - 6,
      width: Math.max(1, x2 - x1),
      height: 12,
      fill,
      hit,
      title: words,
    });
    if (typeof item.low === "number" && typeof item.high === "number") {
      marks.push(line(at(item.low), middle, at(item.high), middle, theme.ink, 1.25));
      for (const end of [item.low, item.high])
        marks.push(line(at(end), middle - 3, at(end), middle + 3, theme.ink, 1.25));
    }
  });
  return {
    width,
    height: 8 + items.length * ROW + (options.axis ? AXIS : 0),
    marks,
    label: `${title}: ${items.length} bars.`,
    table: {
      columns: ["name", "value", "low", "high"],
      rows: items.map((item) => [item.label, item.value ?? "not known", item.low ?? "", item.high ?? ""]),
    },
    edges: [],
  };
}

type NumberFormat = (value: number) => string;

function formatInterval({ value, low, high }: Bar, format: NumberFormat): string {
  if (value === null) return "not known";
  const interval =
    typeof low === "number" && typeof high === "number" ? ` (${format(low)} to ${format(high)})` : "";
  return format(value) + interval;
}
