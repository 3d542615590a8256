/** Ladder view: token columns and layer rows, the deepest on top, with the edges between them. */

import { group } from "d3-array";
import type { VisibleEdge, VisibleFlow } from "../flow/visibleFlow";
import { formatMass } from "../flow/layerShares";
import { layoutColumns, type TokenColumns } from "./tokenColumns";
import {
  listEdgeIndices,
  getEdgeStyle,
  describeEdge,
  describeFlow,
  buildFlowTable,
  drawFlowLegend,
  getMass,
  nameToken,
  nameRoot,
  getSkippedMass,
  sumBy,
  nameTrace,
  type FlowOptions,
} from "./flowmarks";
import { circle, line, text } from "./marks";
import type { Mark, Path, Scene } from "./scene";
import { drawSpecialGutter, GUTTER_WIDTH, SKIP_WIDTH, drawSkipShares } from "./layerMargins";
import { formatSignificant, fitWidth, measureWidth } from "./text";

// Share of a token's mass below which one thin line for the whole column is indistinguishable.
const FAINT = 0.002;

const NAMES = 60; // width of the layer names
const TOP = 44;

/** Draw the ladder view. */
export function drawLadder(visible: VisibleFlow, options: FlowOptions): Scene {
  const { flow } = visible;
  const hasGutter = (options.specials ?? "gutter") === "gutter";
  // Skip shares stand beside the layer names, visible even where the columns scroll out of the window.
  const left = NAMES + SKIP_WIDTH + (hasGutter ? GUTTER_WIDTH : 0);
  const head = TOP + (visible.other ? 24 : 0);
  const pitch = Math.min(84, Math.max(36, 440 / flow.layers));
  const yOf = (level: number): number => head + (flow.layers - level) * pitch;

  const grid = layoutColumns(visible, options, left, options.width - 8);
  const bottom = yOf(0) + 12;
  const marks: Mark[] = [
    ...drawFlowLegend(visible, options, 8, 14, findLargestEdge(visible)),
    ...drawRows(visible, options, yOf, left, grid.right),
    ...drawSkips(visible, options, grid, yOf),
    ...drawEdges(visible, options, grid, yOf),
    ...drawNodes(visible, options, grid, yOf),
    ...grid.labels(bottom),
    ...drawRoot(visible, options, grid, yOf, left),
    ...drawSkipShares(visible, options.theme, NAMES, yOf),
    ...(hasGutter ? drawSpecialGutter(visible, options.theme, NAMES + SKIP_WIDTH, yOf) : []),
  ];
  return {
    width: Math.max(options.width, grid.right + 8),
    height: bottom + grid.deep + 8,
    marks,
    label: describeFlow(visible, "Ladder"),
    get table() {
      return buildFlowTable(visible);
    },
    edges: listEdgeIndices(visible),
  };
}

type Level = (level: number) => number;

function findLargestEdge({ edges }: VisibleFlow): number {
  return edges.reduce((most, edge) => Math.max(most, Math.abs(edge.b - edge.a)), 0);
}

function drawRows(
  { flow }: VisibleFlow,
  { theme }: FlowOptions,
  yOf: Level,
  left: number,
  right: number,
): Mark[] {
  const lines = Array.from({ length: flow.layers + 1 }, (_, level) =>
    line(left, yOf(level), right, yOf(level), theme.rule, 0.5),
  );
  const names = Array.from({ length: flow.layers }, (_, layer) =>
    text(NAMES - 8, (yOf(layer) + yOf(layer + 1)) / 2 + 4, `layer ${layer}`, theme, { anchor: "end" }),
  );
  return [...lines, ...names, text(NAMES - 8, yOf(0) + 4, "input", theme, { anchor: "end" })];
}

/** Draw the skip connections: mass that stays at its token. */
function drawSkips(visible: VisibleFlow, { theme }: FlowOptions, grid: TokenColumns, yOf: Level): Mark[] {
  const { layers } = visible.flow;
  const marks: Mark[] = [...grid.x.values()].map((x) => line(x, yOf(layers), x, yOf(0), theme.rule, 0.75));
  for (let layer = 0; layer < layers; layer++) {
    for (const [token, x] of grid.x) {
      const mass = getSkippedMass(visible, layer, token);
      if (mass < FAINT) continue;
      marks.push({
        ...line(x, yOf(layer + 1), x, yOf(layer), theme.rule, 0.75 + 3.25 * Math.sqrt(Math.min(1, mass))),
        title: () =>
          `layer ${layer}: ${formatSignificant(mass)} stays at ${nameToken(visible.flow.tokens, token)} by the skip connection`,
      });
    }
  }
  return marks;
}

/** Draw the edges; heads between the same tokens run side by side, as wide together as their sum. */
function drawEdges(visible: VisibleFlow, options: FlowOptions, grid: TokenColumns, yOf: Level): Mark[] {
  const strands = group(visible.edges, ({ layer, source, to }) => `${layer} ${source} ${to}`);
  const widest = Math.max(
    ...[...strands.values()].map((strand) => sumBy(strand, (edge) => edge.flow)),
    1e-12,
  );
  const scale = Math.min(16, grid.unit * 0.6) / widest;
  const change = findLargestEdge(visible);

  const marks: { flow: number; mark: Path }[] = [];
  for (const strand of strands.values()) {
    const heads = [...strand].sort((x, y) => x.head - y.head);
    let offset = -(sumBy(heads, (edge) => edge.flow) * scale) / 2;
    for (const edge of heads) {
      const width = edge.flow * scale;
      marks.push({ flow: edge.flow, mark: curve(edge, offset + width / 2, Math.max(0.6, width)) });
      offset += width;
    }
  }
  // Strong edges first, so that weak ones stay visible on top.
  return marks.sort((x, y) => y.flow - x.flow).map(({ mark }) => mark);

  function curve(edge: VisibleEdge, offset: number, width: number): Path {
    const [x1, y1] = [(grid.x.get(edge.source) ?? 0) + offset, yOf(edge.layer + 1)];
    const [x2, y2] = [(grid.x.get(edge.to) ?? 0) + offset, yOf(edge.layer)];
    // Near-level edges stack vertically instead of side by side.
    const middle =
      (y1 + y2) / 2 - ((Math.sign(x2 - x1) * 4) / 3) * offset * computeFlatness(x2 - x1, y2 - y1);
    const bundle = { edges: [edge], flow: edge.flow, a: edge.a, b: edge.b, status: edge.status };
    return {
      kind: "path",
      commands: [["M", x1, y1], ["C", x1, middle, x2, middle, x2, y2]], // prettier-ignore
      ...getEdgeStyle(bundle, visible, options, width, change),
      hit: { kind: "edge", index: edge.index },
      title: () => describeEdge(edge, visible),
    };
  }
}

function computeFlatness(dx: number, dy: number): number {
  return Math.abs(dx) / Math.max(1, Math.abs(dx) + Math.abs(dy));
}

function drawNodes(visible: VisibleFlow, { theme }: FlowOptions, grid: TokenColumns, yOf: Level): Mark[] {
  const marks: Mark[] = [];
  const most = Math.min(7, grid.unit * 0.4);
  const counts = visible.other ? null : (visible.flow.influence?.values ?? null);
  const highest = Math.max(1e-12, ...(counts ?? []).flat());
  const touched = new Set(
    visible.edges.flatMap(({ layer, source, to }) => [`${layer + 1} ${source}`, `${layer} ${to}`]),
  );
  for (let level = visible.flow.layers; level >= 0; level--) {
    for (const [token, x] of grid.x) {
      const mass = getMass(visible, level, token);
      const count = counts?.[level]?.[token] ?? 0;
      if (counts ? count <= 0 : mass < FAINT && !touched.has(`${level} ${token}`)) continue;
      const size = counts ? count / highest : Math.min(1, mass);
      const influence = counts ? `, influence ${formatSignificant(count)}` : "";
      marks.push({
        kind: "path",
        commands: circle(x, yOf(level), Math.max(0.8, most * Math.sqrt(size))),
        fill: theme.ink,
        hit: { kind: "token", token, level },
        title: () =>
          `${nameToken(visible.flow.tokens, token)} at level ${level}: ${formatMass(visible.flow, mass)}${influence}`,
      });
      // The classic definition's number, where there is room.
      if (counts && grid.unit >= 34) {
        const words = formatSignificant(Number(count.toPrecision(3)));
        const isLast = x + 9 + measureWidth(words, 9) > grid.right + 8;
        const at = isLast ? { anchor: "end" as const, x: x - 9 } : { x: x + 9 };
        marks.push(text(0, yOf(level) - 4, words, theme, { size: 9, ...at }));
      }
    }
  }
  return marks;
}

/** Draw the root of the trace: on top for the decision, below for a word that is traced forward. */
function drawRoot(
  visible: VisibleFlow,
  options: FlowOptions,
  grid: TokenColumns,
  yOf: Level,
  left: number,
): Mark[] {
  const { flow } = visible;
  const { theme } = options;
  const level = flow.direction === "back" ? flow.layers : 0;
  const top = flow.nodes[flow.layers] ?? [];
  const token = flow.token ?? top.indexOf(Math.max(...top));
  const x = grid.x.get(token);
  if (x === undefined) return [];
  const ring: Path = {
    kind: "path",
    commands: circle(x, yOf(level), 9.5),
    stroke: theme.accent,
    strokeWidth: 2,
  };
  const right = Math.max(grid.right, options.width - 8);
  const isRight = x > (left + right) / 2;
  const at = isRight ? { x: x + 9, anchor: "end" as const } : { x: x - 9 };
  const room = (isRight ? x - left : right - x) - 8;
  // Bold letters are wider. Without room for the full title, the root's name alone.
  const full = nameTrace(flow);
  const words = fitWidth(measureWidth(full, 13) <= room ? full : nameRoot(flow), 13, room);
  const title = text(0, yOf(flow.layers) - 18, words, theme, {
    ...at,
    fill: theme.ink,
    size: 12,
    bold: true,
  });
  return [ring, title];
}
