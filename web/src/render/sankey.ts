/** Sankey view: levels from left to right, the deepest first; blocks are token mass, ribbons flow, heads summed. */

import type { VisibleFlow } from "../flow/visibleFlow";
import { formatMass } from "../flow/layerShares";
import {
  bundleEdges,
  listEdgeIndices,
  getEdgeStyle,
  describeFlow,
  buildFlowTable,
  labelToken,
  drawFlowLegend,
  getMass,
  findLargestChange,
  nameToken,
  getSkippedMass,
  type Bundle,
  type FlowOptions,
} from "./flowmarks";
import { paperBehind, text } from "./marks";
import type { Command, Mark, Path, Scene } from "./scene";
import { drawShareFootnote } from "./layerMargins";
import { formatSignificant, fitWidth } from "./text";

const LABEL = 92;
const BAR = 7;

interface Link {
  readonly layer: number;
  readonly source: number;
  readonly to: number;
  readonly value: number;
  readonly bundle: Bundle | null; // null: the skip connection
}

interface Block {
  readonly token: number;
  readonly mass: number;
  readonly size: number; // mass, or the sum of its links where that is larger
  y: number;
}

/** Draw the Sankey view. */
export function drawSankey(visible: VisibleFlow, options: FlowOptions): Scene {
  const { flow } = visible;
  const { theme, width } = options;
  const top = visible.other ? 56 : 32;
  const parts = bundleEdges(visible.edges, ({ layer, source, to }) => `${layer} ${source} ${to}`);
  const visibleTokens = selectTokens(visible);
  const links = [...parts.map(buildLink), ...buildSkipLinks(visible, visibleTokens)];
  const columns = visibleTokens.map((tokens, level) => buildBlocks(tokens, level, links, visible));

  const most = Math.max(1, ...columns.map((column) => column.length));
  const tall = Math.min(2400, Math.max(300, most * 22));
  const pad = Math.min(8, (tall * 0.4) / most);
  const heaviest = Math.max(
    ...columns.map((column) => column.reduce((sum, block) => sum + block.size, 0)),
    1e-12,
  );
  const scale = (tall - pad * most) / heaviest;
  for (const column of columns) stackBlocks(column, top, tall, pad, scale);

  const xOf = (level: number): number =>
    LABEL + ((flow.layers - level) / flow.layers) * (width - 2 * LABEL - BAR);
  const note = drawShareFootnote(visible, theme, width, top + tall + 20);
  const marks: Mark[] = [
    ...drawFlowLegend(visible, options, 8, 14, findLargestChange(parts)),
    ...drawRibbons(links, columns, visible, options, xOf, scale, findLargestChange(parts)),
    ...drawBars(columns, visible, options, xOf, scale),
    ...drawLevelNames(flow.layers, options, xOf, top),
    ...note.marks,
  ];
  return {
    width,
    height: top + tall + note.height + 14,
    marks,
    label: describeFlow(visible, "Sankey diagram"),
    table: buildFlowTable(visible),
    edges: listEdgeIndices(visible),
  };
}

function buildLink(bundle: Bundle): Link {
  const { layer, source, to } = bundle.edges[0] ?? { layer: 0, source: 0, to: 0 };
  return { layer, source, to, value: bundle.flow, bundle };
}

/** Select the tokens of each level: ends of visible edges, and roots of the trace. */
function selectTokens({ flow, edges }: VisibleFlow): number[][] {
  const visibleTokens = Array.from({ length: flow.layers + 1 }, () => new Set<number>());
  for (const { layer, source, to } of edges) {
    visibleTokens[layer + 1]?.add(source);
    visibleTokens[layer]?.add(to);
  }
  if (flow.token !== null) visibleTokens[flow.direction === "back" ? flow.layers : 0]?.add(flow.token);
  // Between two levels with edges, a token continues along the skip connection.
  for (const token of new Set(visibleTokens.flatMap((tokens) => [...tokens]))) {
    const levels = visibleTokens.flatMap((tokens, level) => (tokens.has(token) ? [level] : []));
    visibleTokens.slice(levels[0], levels.at(-1)).forEach((tokens) => tokens.add(token));
  }
  return visibleTokens.map((tokens) => [...tokens].sort((x, y) => x - y));
}

function buildSkipLinks(visible: VisibleFlow, visibleTokens: readonly (readonly number[])[]): Link[] {
  return visibleTokens.slice(0, -1).flatMap((tokens, layer) => {
    const above = new Set(visibleTokens[layer + 1]);
    return tokens
      .filter((token) => above.has(token) && getSkippedMass(visible, layer, token) > 0)
      .map((token) => ({
        layer,
        source: token,
        to: token,
        value: getSkippedMass(visible, layer, token),
        bundle: null,
      }));
  });
}

function buildBlocks(
  tokens: readonly number[],
  level: number,
  links: readonly Link[],
  visible: VisibleFlow,
): Block[] {
  const into = new Map<number, number>();
  const out = new Map<number, number>();
  for (const { layer, source, to, value } of links) {
    if (layer === level) into.set(to, (into.get(to) ?? 0) + value);
    if (layer + 1 === level) out.set(source, (out.get(source) ?? 0) + value);
  }
  return tokens.map((token) => {
    const mass = getMass(visible, level, token);
    return { token, mass, size: Math.max(mass, into.get(token) ?? 0, out.get(token) ?? 0), y: 0 };
  });
}

/** Stack the blocks of a column, centred vertically. */
function stackBlocks(column: Block[], top: number, tall: number, pad: number, scale: number): void {
  const height = column.reduce((sum, block) => sum + block.size * scale + pad, -pad);
  let y = top + (tall - height) / 2;
  for (const block of column) {
    block.y = y;
    y += block.size * scale + pad;
  }
}

function drawRibbons(
  links: readonly Link[],
  columns: readonly Block[][],
  visible: VisibleFlow,
  options: FlowOptions,
  xOf: (level: number) => number,
  scale: number,
  change: number,
): Mark[] {
  const { tokens } = visible.flow;
  const place = new Map(
    columns.flatMap((column, level) => column.map((block) => [`${level} ${block.token}`, block.y] as const)),
  );
  const used = new Map<string, number>();
  const take = (side: string, level: number, token: number, value: number): number => {
    const key = `${side} ${level} ${token}`;
    const before = used.get(key) ?? 0;
    used.set(key, before + value);
    return (place.get(`${level} ${token}`) ?? 0) + (before + value / 2) * scale;
  };
  // Sorted by their ends, to minimise crossings.
  const order = [...links].sort((x, y) => x.layer - y.layer || x.source - y.source || x.to - y.to);
  const starts = new Map(order.map((link) => [link, take("out", link.layer + 1, link.source, link.value)]));
  order.sort((x, y) => x.layer - y.layer || x.to - y.to || x.source - y.source);
  const ends = new Map(order.map((link) => [link, take("in", link.layer, link.to, link.value)]));

  const path = (link: Link): Path => {
    const [x1, y1] = [xOf(link.layer + 1) + BAR, starts.get(link) ?? 0];
    const [x2, y2] = [xOf(link.layer), ends.get(link) ?? 0];
    const width = Math.max(0.5, link.value * scale);
    const area = buildRibbon(x1, y1, x2, y2, width);
    const names = [nameToken(tokens, link.source), nameToken(tokens, link.to)];
    const value = formatSignificant(link.value);
    if (!link.bundle) {
      const title = `layer ${link.layer}: ${value} stays at ${names[0]} by the skip connection`;
      return { kind: "path", commands: area, fill: options.theme.rule, opacity: 0.55, title };
    }
    const title = `layer ${link.layer}: ${names[0]} reads ${names[1]}, ${value} over all heads shown`;
    const result = { hit: { kind: "edge", index: link.bundle.edges[0]?.index ?? 0 } as const, title };
    const { stroke, opacity, ...style } = getEdgeStyle(link.bundle, visible, options, width, change);
    const shade = { ...(opacity === undefined ? {} : { opacity }), ...result };
    if (!style.dash) return { kind: "path", commands: area, ...(stroke ? { fill: stroke } : {}), ...shade };
    return {
      kind: "path",
      commands: buildLine(x1, y1, x2, y2),
      ...(stroke ? { stroke } : {}),
      ...style,
      ...shade,
    };
  };
  const skips = links.filter((link) => !link.bundle);
  const flows = links.filter((link) => link.bundle).sort((x, y) => y.value - x.value);
  return [...skips, ...flows].map(path);
}

/** Build a ribbon of constant height; a stroke would have that height only where it is level. */
function buildRibbon(x1: number, y1: number, x2: number, y2: number, width: number): Command[] {
  const [middle, half] = [(x1 + x2) / 2, width / 2];
  return [
    ["M", x1, y1 - half],
    ["C", middle, y1 - half, middle, y2 - half, x2, y2 - half],
    ["L", x2, y2 + half],
    ["C", middle, y2 + half, middle, y1 + half, x1, y1 + half],
    ["Z"],
  ];
}

function buildLine(x1: number, y1: number, x2: number, y2: number): Command[] {
  const middle = (x1 + x2) / 2;
  return [["M", x1, y1], ["C", middle, y1, middle, y2, x2, y2]]; // prettier-ignore
}

function drawBars(
  columns: readonly Block[][],
  visible: VisibleFlow,
  { theme }: FlowOptions,
  xOf: (level: number) => number,
  scale: number,
): Mark[] {
  const { flow } = visible;
  return columns.flatMap((column, level) =>
    column.flatMap(({ token, mass, size, y }): Mark[] => {
      const x = xOf(level);
      const height = Math.max(1, size * scale);
      const hit = { kind: "token", token, level } as const;
      const title = `${nameToken(flow.tokens, token)} at level ${level}: ${formatMass(flow, mass)}`;
      const bar: Mark = { kind: "rect", x, y, width: BAR, height, fill: theme.ink, hit, title };
      const isEnd = level === 0 || level === flow.layers;
      if (!isEnd && height < 9) return [bar];
      const words = fitWidth(labelToken(flow.tokens, token), isEnd ? 12 : 10, LABEL - 16);
      const middle = y + height / 2 + 4;
      const rest = { fill: theme.ink, size: isEnd ? 12 : 10, hit, title };
      if (level === flow.layers) return [bar, text(x - 6, middle, words, theme, { ...rest, anchor: "end" })];
      const label = text(x + BAR + 5, middle, words, theme, rest);
      return isEnd ? [bar, label] : [bar, paperBehind(label, theme), label];
    }),
  );
}

function drawLevelNames(
  layers: number,
  { theme }: FlowOptions,
  xOf: (level: number) => number,
  top: number,
): Mark[] {
  return Array.from({ length: layers }, (_, layer) =>
    text((xOf(layer) + xOf(layer + 1) + BAR) / 2, top - 12, `layer ${layer}`, theme, { anchor: "middle" }),
  );
}
