/** Token columns, layer rows, the deepest on top: what was read from where, layer by layer. */

import { group } from "d3-array";
import type { ShownEdge, ShownFlow } from "../flow/shown";
import { massInWords } from "../flow/unit";
import { columns, type Columns } from "./columns";
import {
  edgesOf,
  edgeStyle,
  edgeTitle,
  flowLabel,
  flowTable,
  legend,
  massAt,
  nameOf,
  rootName,
  skippedAt,
  sum,
  traceName,
  type FlowOptions,
} from "./flowmarks";
import { circle, line, text } from "./marks";
import type { Mark, Path, Scene } from "./scene";
import { gutter, GUTTER, SKIP, skips } from "./sinks";
import { figure, fit, widthOf } from "./text";

// Of what stands at a token: below it, one thin line for the whole column says all that an eye can tell.
const FAINT = 0.002;

const NAMES = 60; // of the layers
const TOP = 44;

export function ladder(shown: ShownFlow, options: FlowOptions): Scene {
  const { flow } = shown;
  const hasGutter = (options.specials ?? "gutter") === "gutter";
  // What goes past stands beside the layers' names, in sight also where the columns run out of the window.
  const left = NAMES + SKIP + (hasGutter ? GUTTER : 0);
  const head = TOP + (shown.other ? 24 : 0);
  const pitch = Math.min(84, Math.max(36, 440 / flow.layers));
  const yOf = (level: number): number => head + (flow.layers - level) * pitch;

  const grid = columns(shown, options, left, options.width - 8);
  const bottom = yOf(0) + 12;
  const marks: Mark[] = [
    ...legend(shown, options, 8, 14, mostEdge(shown)),
    ...rows(shown, options, yOf, left, grid.right),
    ...spines(shown, options, grid, yOf),
    ...curves(shown, options, grid, yOf),
    ...nodes(shown, options, grid, yOf),
    ...grid.labels(bottom),
    ...root(shown, options, grid, yOf, left),
    ...skips(shown, options.theme, NAMES, yOf),
    ...(hasGutter ? gutter(shown, options.theme, NAMES + SKIP, yOf) : []),
  ];
  return {
    width: Math.max(options.width, grid.right + 8),
    height: bottom + grid.deep + 8,
    marks,
    label: flowLabel(shown, "Ladder"),
    get table() {
      return flowTable(shown);
    },
    edges: edgesOf(shown),
  };
}

type Level = (level: number) => number;

function mostEdge({ edges }: ShownFlow): number {
  return edges.reduce((most, edge) => Math.max(most, Math.abs(edge.b - edge.a)), 0);
}

function rows({ flow }: ShownFlow, { theme }: FlowOptions, yOf: Level, left: number, right: number): Mark[] {
  const lines = Array.from({ length: flow.layers + 1 }, (_, level) =>
    line(left, yOf(level), right, yOf(level), theme.rule, 0.5),
  );
  const names = Array.from({ length: flow.layers }, (_, layer) =>
    text(NAMES - 8, (yOf(layer) + yOf(layer + 1)) / 2 + 4, `layer ${layer}`, theme, { anchor: "end" }),
  );
  return [...lines, ...names, text(NAMES - 8, yOf(0) + 4, "input", theme, { anchor: "end" })];
}

/** The skip connection: what goes past a layer and stays where it is. */
function spines(shown: ShownFlow, { theme }: FlowOptions, grid: Columns, yOf: Level): Mark[] {
  const { layers } = shown.flow;
  const marks: Mark[] = [...grid.x.values()].map((x) => line(x, yOf(layers), x, yOf(0), theme.rule, 0.75));
  for (let layer = 0; layer < layers; layer++) {
    for (const [token, x] of grid.x) {
      const mass = skippedAt(shown, layer, token);
      if (mass < FAINT) continue;
      marks.push({
        ...line(x, yOf(layer + 1), x, yOf(layer), theme.rule, 0.75 + 3.25 * Math.sqrt(Math.min(1, mass))),
        title: () =>
          `layer ${layer}: ${figure(mass)} stays at ${nameOf(shown.flow.tokens, token)} by the skip connection`,
      });
    }
  }
  return marks;
}

/** Heads between the same two tokens run side by side, so that together they are as wide as their sum. */
function curves(shown: ShownFlow, options: FlowOptions, grid: Columns, yOf: Level): Mark[] {
  const strands = group(shown.edges, ({ layer, source, to }) => `${layer} ${source} ${to}`);
  const widest = Math.max(...[...strands.values()].map((strand) => sum(strand, (edge) => edge.flow)), 1e-12);
  const scale = Math.min(16, grid.unit * 0.6) / widest;
  const change = mostEdge(shown);

  const marks: { flow: number; mark: Path }[] = [];
  for (const strand of strands.values()) {
    const heads = [...strand].sort((x, y) => x.head - y.head);
    let offset = -(sum(heads, (edge) => edge.flow) * scale) / 2;
    for (const edge of heads) {
      const width = edge.flow * scale;
      marks.push({ flow: edge.flow, mark: curve(edge, offset + width / 2, Math.max(0.6, width)) });
      offset += width;
    }
  }
  // The strong ones first: the weak ones stay visible on top of them.
  return marks.sort((x, y) => y.flow - x.flow).map(({ mark }) => mark);

  function curve(edge: ShownEdge, offset: number, width: number): Path {
    const [x1, y1] = [(grid.x.get(edge.source) ?? 0) + offset, yOf(edge.layer + 1)];
    const [x2, y2] = [(grid.x.get(edge.to) ?? 0) + offset, yOf(edge.layer)];
    // Where the way is level, the strands lie above each other instead of beside each other.
    const middle = (y1 + y2) / 2 - ((Math.sign(x2 - x1) * 4) / 3) * offset * level(x2 - x1, y2 - y1);
    const bundle = { edges: [edge], flow: edge.flow, a: edge.a, b: edge.b, status: edge.status };
    return {
      kind: "path",
      commands: [["M", x1, y1], ["C", x1, middle, x2, middle, x2, y2]], // prettier-ignore
      ...edgeStyle(bundle, shown, options, width, change),
      hit: { kind: "edge", index: edge.index },
      title: () => edgeTitle(edge, shown),
    };
  }
}

function level(dx: number, dy: number): number {
  return Math.abs(dx) / Math.max(1, Math.abs(dx) + Math.abs(dy));
}

function nodes(shown: ShownFlow, { theme }: FlowOptions, grid: Columns, yOf: Level): Mark[] {
  const marks: Mark[] = [];
  const most = Math.min(7, grid.unit * 0.4);
  const counts = shown.other ? null : (shown.flow.influence?.values ?? null);
  const highest = Math.max(1e-12, ...(counts ?? []).flat());
  const touched = new Set(
    shown.edges.flatMap(({ layer, source, to }) => [`${layer + 1} ${source}`, `${layer} ${to}`]),
  );
  for (let level = shown.flow.layers; level >= 0; level--) {
    for (const [token, x] of grid.x) {
      const mass = massAt(shown, level, token);
      const count = counts?.[level]?.[token] ?? 0;
      if (counts ? count <= 0 : mass < FAINT && !touched.has(`${level} ${token}`)) continue;
      const size = counts ? count / highest : Math.min(1, mass);
      const influence = counts ? `, influence ${figure(count)}` : "";
      marks.push({
        kind: "path",
        commands: circle(x, yOf(level), Math.max(0.8, most * Math.sqrt(size))),
        fill: theme.ink,
        hit: { kind: "token", token, level },
        title: () =>
          `${nameOf(shown.flow.tokens, token)} at level ${level}: ${massInWords(shown.flow, mass)}${influence}`,
      });
      // The classic figure itself, where there is room for it.
      if (counts && grid.unit >= 34) {
        const words = figure(Number(count.toPrecision(3)));
        const isLast = x + 9 + widthOf(words, 9) > grid.right + 8;
        const at = isLast ? { anchor: "end" as const, x: x - 9 } : { x: x + 9 };
        marks.push(text(0, yOf(level) - 4, words, theme, { size: 9, ...at }));
      }
    }
  }
  return marks;
}

/** Where the trace begins: on top for the decision, and below for a word whose way up is followed. */
function root(shown: ShownFlow, options: FlowOptions, grid: Columns, yOf: Level, left: number): Mark[] {
  const { flow } = shown;
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
  // Bold letters are wider. Where there is no room for all that is to be said, the root alone.
  const full = traceName(flow);
  const words = fit(widthOf(full, 13) <= room ? full : rootName(flow), 13, room);
  const title = text(0, yOf(flow.layers) - 18, words, theme, {
    ...at,
    fill: theme.ink,
    size: 12,
    bold: true,
  });
  return [ring, title];
}
