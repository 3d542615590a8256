/** What a picture of edges leaves out, per layer: the skip connection's share, and what ends on special tokens. */

import type { Flow } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import { dividedBy, unitName } from "../flow/unit";
import { text } from "./marks";
import { CAPTION, captionLines } from "./caption";
import type { Mark, Text, Theme } from "./scene";
import { percent } from "./text";

export const SKIP = 40;
export const GUTTER = 82;
const BAR = 36;

const SPECIALS = "What edges carry to special tokens, of the unit that set out";

type Level = (level: number) => number;

export function skips({ flow, other }: ShownFlow, theme: Theme, x: number, yOf: Level): Mark[] {
  const [own, others] = [dividedBy(flow), other ? dividedBy(other) : null];
  const shares = own.map(({ past }, layer) => (others ? (past + (others[layer]?.past ?? 0)) / 2 : past));
  const title = "What goes past the layer by the skip connection";
  return [
    text(x, yOf(flow.layers) - 18, "skip", theme, { title }),
    ...shares.map((share, layer) => text(x, between(yOf, layer) + 4, percent(share), theme, { title })),
  ];
}

function special(flow: Flow, layer: number): number {
  return dividedBy(flow)[layer]?.special ?? 0;
}

function between(yOf: Level, layer: number): number {
  return (yOf(layer) + yOf(layer + 1)) / 2;
}

/** Bars of the edges' flow that ends on special tokens; they are drawn here so that nothing is renormalised. */
export function gutter(shown: ShownFlow, theme: Theme, x: number, yOf: Level): Mark[] {
  const { flow, other } = shown;
  const marks: Mark[] = [text(x, yOf(flow.layers) - 18, "to specials", theme, { title: SPECIALS })];
  for (let layer = 0; layer < flow.layers; layer++) {
    const bars = other
      ? [
          { share: special(flow, layer), fill: theme.a },
          { share: special(other, layer), fill: theme.b },
        ]
      : [{ share: special(flow, layer), fill: theme.shared }];
    bars.forEach(({ share, fill }, i) => {
      const height = other ? 6 : 9;
      const y = between(yOf, layer) + (other ? i * 12 - 12 : -5) + (other ? 3 : 0);
      const whose = other ? ` in ${i === 0 ? "A" : "B"}` : "";
      const title = `layer ${layer}: edges carry ${percent(share)} of ${unitName(flow)} to special tokens${whose}`;
      marks.push(
        { kind: "rect", x, y, width: BAR, height, fill: theme.rule, title },
        { kind: "rect", x, y, width: BAR * Math.min(1, share), height, fill, title },
        text(x + BAR + 6, y + height, percent(share), theme, { size: other ? 9 : 11, title }),
      );
    });
  }
  return marks;
}

/** The same in words, for views that have no rows of layers. */
export function footnote(
  shown: ShownFlow,
  theme: Theme,
  width: number,
  y: number,
  before = "",
): { marks: Text[]; height: number } {
  const lines = captionLines(before + shares(shown), width, 11);
  return {
    marks: lines.map((words, i) => text(CAPTION.left, y + i * 15, words, theme)),
    height: lines.length * 15,
  };
}

function shares({ flow, other }: ShownFlow): string {
  const told = (one: Flow): string => {
    const divided = dividedBy(one);
    const [past, special] = [
      average(divided.map((each) => each.past)),
      average(divided.map((each) => each.special)),
    ];
    return `${percent(past)} by skip connections, ${percent(special)} along edges to special tokens`;
  };
  const words = other ? `A: ${told(flow)} · B: ${told(other)}` : told(flow);
  return `Per layer, in the mean: ${words}.`;
}

function average(shares: readonly number[]): number | null {
  return shares.length ? shares.reduce((sum, share) => sum + share, 0) / shares.length : null;
}
