/** Margins of a flow picture, by layer: share of the skip connection, and share that ends on special tokens. */

import type { Flow } from "../api/types";
import type { VisibleFlow } from "../flow/visibleFlow";
import { divideLayers, nameUnit } from "../flow/layerShares";
import { text } from "./marks";
import { CAPTION_STYLE, wrapCaption } from "./caption";
import type { Mark, Text, Theme } from "./scene";
import { formatShare } from "./text";

export const SKIP_WIDTH = 40;
export const GUTTER_WIDTH = 82;
const BAR = 36;

const SPECIALS = "What edges carry to special tokens, of the unit that set out";

type Level = (level: number) => number;

/** Draw the skip connection's share beside each layer. */
export function drawSkipShares({ flow, other }: VisibleFlow, theme: Theme, x: number, yOf: Level): Mark[] {
  const [own, others] = [divideLayers(flow), other ? divideLayers(other) : null];
  const shares = own.map(({ past }, layer) => (others ? (past + (others[layer]?.past ?? 0)) / 2 : past));
  const title = "What goes past the layer by the skip connection";
  return [
    text(x, yOf(flow.layers) - 18, "skip", theme, { title }),
    ...shares.map((share, layer) =>
      text(x, findMiddle(yOf, layer) + 4, formatShare(share), theme, { title }),
    ),
  ];
}

function getSpecialShare(flow: Flow, layer: number): number {
  return divideLayers(flow)[layer]?.special ?? 0;
}

function findMiddle(yOf: Level, layer: number): number {
  return (yOf(layer) + yOf(layer + 1)) / 2;
}

/** Draw bars of the flow that ends on special tokens; kept in the picture, so nothing is renormalised. */
export function drawSpecialGutter(visible: VisibleFlow, theme: Theme, x: number, yOf: Level): Mark[] {
  const { flow, other } = visible;
  const marks: Mark[] = [text(x, yOf(flow.layers) - 18, "to specials", theme, { title: SPECIALS })];
  for (let layer = 0; layer < flow.layers; layer++) {
    const bars = other
      ? [
          { share: getSpecialShare(flow, layer), fill: theme.a },
          { share: getSpecialShare(other, layer), fill: theme.b },
        ]
      : [{ share: getSpecialShare(flow, layer), fill: theme.shared }];
    bars.forEach(({ share, fill }, i) => {
      const height = other ? 6 : 9;
      const y = findMiddle(yOf, layer) + (other ? i * 12 - 12 : -5) + (other ? 3 : 0);
      const whose = other ? ` in ${i === 0 ? "A" : "B"}` : "";
      const title = `layer ${layer}: edges carry ${formatShare(share)} of ${nameUnit(flow)} to special tokens${whose}`;
      marks.push(
        { kind: "rect", x, y, width: BAR, height, fill: theme.rule, title },
        { kind: "rect", x, y, width: BAR * Math.min(1, share), height, fill, title },
        text(x + BAR + 6, y + height, formatShare(share), theme, { size: other ? 9 : 11, title }),
      );
    });
  }
  return marks;
}

/** Draw the same shares as a footnote, for views without layer rows. */
export function drawShareFootnote(
  visible: VisibleFlow,
  theme: Theme,
  width: number,
  y: number,
  before = "",
): { marks: Text[]; height: number } {
  const lines = wrapCaption(before + describeShares(visible), width, 11);
  return {
    marks: lines.map((words, i) => text(CAPTION_STYLE.left, y + i * 15, words, theme)),
    height: lines.length * 15,
  };
}

function describeShares({ flow, other }: VisibleFlow): string {
  const describe = (one: Flow): string => {
    const divided = divideLayers(one);
    const [past, special] = [
      computeAverage(divided.map((each) => each.past)),
      computeAverage(divided.map((each) => each.special)),
    ];
    return `${formatShare(past)} by skip connections, ${formatShare(special)} along edges to special tokens`;
  };
  const words = other ? `A: ${describe(flow)} · B: ${describe(other)}` : describe(flow);
  return `Per layer, in the mean: ${words}.`;
}

function computeAverage(shares: readonly number[]): number | null {
  return shares.length ? shares.reduce((sum, share) => sum + share, 0) / shares.length : null;
}
