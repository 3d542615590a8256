/** What a picture of edges leaves out, per layer: the skip connection's share, and what ends on special tokens. */

import type { Flow } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import { text } from "./marks";
import { CAPTION, captionLines } from "./caption";
import type { Mark, Text, Theme } from "./scene";
import { percent } from "./text";

export const SKIP = 40;
export const GUTTER = 82;
const BAR = 36;

const SPECIALS = "What of the edges' flow ends on special tokens";

type Level = (level: number) => number;

export function skips({ flow, other }: ShownFlow, theme: Theme, x: number, yOf: Level): Mark[] {
  const shares = flow.residual_share.map((share, layer) => mean(share, other?.residual_share[layer] ?? null));
  const title = "What goes past the layer by the skip connection";
  return [
    text(x, yOf(flow.layers) - 18, "skip", theme, { title }),
    ...shares.map((share, layer) => text(x, between(yOf, layer) + 4, percent(share), theme, { title })),
  ];
}

function mean(one: number | null, two: number | null): number | null {
  return one === null || two === null ? (one ?? two) : (one + two) / 2;
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
      ? [{ share: flow.special_share[layer], fill: theme.a }, { share: other.special_share[layer], fill: theme.b }] // prettier-ignore
      : [{ share: flow.special_share[layer], fill: theme.shared }];
    bars.forEach(({ share, fill }, i) => {
      const height = other ? 6 : 9;
      const y = between(yOf, layer) + (other ? i * 12 - 12 : -5) + (other ? 3 : 0);
      const whose = other ? ` in ${i === 0 ? "A" : "B"}` : "";
      const title = `layer ${layer}: ${percent(share)} of what the edges carry ends on special tokens${whose}`;
      marks.push(
        { kind: "rect", x, y, width: BAR, height, fill: theme.rule, title },
        { kind: "rect", x, y, width: BAR * Math.min(1, share ?? 0), height, fill, title },
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
  const told = ({ residual_share, special_share }: Flow): string =>
    `${percent(average(residual_share))} by skip connections, ${percent(average(special_share))} of the rest to special tokens`;
  const words = other ? `A: ${told(flow)} · B: ${told(other)}` : told(flow);
  return `Per layer, in the mean: ${words}.`;
}

function average(shares: readonly (number | null)[]): number | null {
  const known = shares.filter((share) => share !== null);
  return known.length ? known.reduce((sum, share) => sum + share, 0) / known.length : null;
}
