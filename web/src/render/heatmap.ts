/** Heat map of the flow, layers by tokens: the mass that a layer's visible edges bring to each token. */

import type { VisibleFlow } from "../flow/visibleFlow";
import { layoutColumns } from "./tokenColumns";
import {
  bundleEdges,
  listEdgeIndices,
  describeFlow,
  buildFlowTable,
  drawFlowLegend,
  findLargestChange,
  nameToken,
  type FlowOptions,
} from "./flowmarks";
import { text } from "./marks";
import { drawColourStrip } from "./colourLegend";
import type { Mark, Scene } from "./scene";
import { drawSpecialGutter, GUTTER_WIDTH, SKIP_WIDTH, drawSkipShares } from "./layerMargins";
import { formatSignificant } from "./text";

const NAMES = 60; // width of the layer names

/** Draw the heat map. */
export function drawHeatmap(visible: VisibleFlow, options: FlowOptions): Scene {
  const { flow, other } = visible;
  const { theme } = options;
  const hasGutter = (options.specials ?? "gutter") === "gutter";
  const left = NAMES + SKIP_WIDTH + (hasGutter ? GUTTER_WIDTH : 0); // as in the ladder view
  const top = 30 + (other ? 24 : 0);
  const pitch = Math.min(44, Math.max(20, 360 / flow.layers));
  const yOf = (level: number): number => top + (flow.layers - level) * pitch;

  const grid = layoutColumns(visible, options, left, options.width - 8);
  const parts = bundleEdges(visible.edges, ({ layer, to }) => `${layer} ${to}`);
  const byPlace = new Map(parts.map((part) => [`${part.edges[0]?.layer} ${part.edges[0]?.to}`, part]));
  const most = Math.max(...parts.map((part) => Math.max(part.a, part.b, other ? 0 : part.flow)), 1e-12);
  const change = findLargestChange(parts);
  const isChange = Boolean(other && options.difference);
  const colour = (value: number): string =>
    isChange ? theme.difference(value / (change || 1)) : theme.sequential(Math.sqrt(value / most));

  const marks: Mark[] = isChange ? drawFlowLegend(visible, options, 8, 14, change) : [];
  if (other && !isChange) marks.push(text(8, 18, "left half of a cell: A; right half: B", theme));
  for (let layer = flow.layers - 1; layer >= 0; layer--) {
    marks.push(text(NAMES - 8, yOf(layer) - pitch / 2 + 4, `layer ${layer}`, theme, { anchor: "end" }));
    for (const [token, x] of grid.x) {
      const part = byPlace.get(`${layer} ${token}`);
      const [a, b] = [part?.a ?? 0, part?.b ?? 0];
      const box = {
        x: x - grid.unit / 2 + 0.75,
        y: yOf(layer + 1) + 0.75,
        width: grid.unit - 1.5,
        height: pitch - 1.5,
      };
      const hit = { kind: "cell", row: layer, column: token } as const;
      const edges = `${part?.edges.length ?? 0} edges shown`;
      const value = other ? `A ${formatSignificant(a)}, B ${formatSignificant(b)}` : formatSignificant(a);
      const title = `layer ${layer}: ${value} flows to ${nameToken(flow.tokens, token)}, ${edges}`;
      const frame = { stroke: theme.rule, strokeWidth: 0.5 };
      if (other && !isChange) {
        marks.push({ kind: "rect", ...box, width: box.width / 2, fill: colour(a) });
        marks.push({ kind: "rect", ...box, x: box.x + box.width / 2, width: box.width / 2, fill: colour(b) });
        marks.push({ kind: "rect", ...box, ...frame, hit, title });
      } else marks.push({ kind: "rect", ...box, ...frame, fill: colour(isChange ? b - a : a), hit, title });
    }
  }
  const bottom = yOf(0) + 6;
  marks.push(...grid.labels(bottom));
  marks.push(...drawSkipShares(visible, theme, NAMES, yOf));
  if (hasGutter) marks.push(...drawSpecialGutter(visible, theme, NAMES + SKIP_WIDTH, yOf));
  const under = bottom + grid.deep + 26;
  if (!isChange) {
    const scale = { low: 0, high: most, colour, root: true, title: "flow to the token, by the edges shown" };
    marks.push(...drawColourStrip(scale, theme, NAMES, under, 220));
  }
  return {
    width: Math.max(options.width, grid.right + 8),
    height: under + (isChange ? 0 : 32),
    marks,
    label: describeFlow(visible, "Heatmap of layers by tokens"),
    table: buildFlowTable(visible),
    edges: listEdgeIndices(visible),
  };
}
