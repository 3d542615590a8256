/** Levels from left to right, the deepest first: how much each token holds, and where it came from. Heads are added up. */

import type { ShownFlow } from "../flow/shown";
import { massInWords } from "../flow/unit";
import {
  bundles,
  edgesOf,
  edgeStyle,
  flowLabel,
  flowTable,
  labelOf,
  legend,
  massAt,
  mostChange,
  nameOf,
  skippedAt,
  type Bundle,
  type FlowOptions,
} from "./flowmarks";
import { behind, text } from "./marks";
import type { Command, Mark, Path, Scene } from "./scene";
import { footnote } from "./sinks";
import { figure, fit } from "./text";

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
  readonly size: number; // mass, or what its links take where that is more
  y: number;
}

export function sankey(shown: ShownFlow, options: FlowOptions): Scene {
  const { flow } = shown;
  const { theme, width } = options;
  const top = shown.other ? 56 : 32;
  const parts = bundles(shown.edges, ({ layer, source, to }) => `${layer} ${source} ${to}`);
  const kept = keptTokens(shown);
  const links = [...parts.map(linkOf), ...skipLinks(shown, kept)];
  const columns = kept.map((tokens, level) => blocks(tokens, level, links, shown));

  const most = Math.max(1, ...columns.map((column) => column.length));
  const tall = Math.min(2400, Math.max(300, most * 22));
  const pad = Math.min(8, (tall * 0.4) / most);
  const heaviest = Math.max(
    ...columns.map((column) => column.reduce((sum, block) => sum + block.size, 0)),
    1e-12,
  );
  const scale = (tall - pad * most) / heaviest;
  for (const column of columns) stack(column, top, tall, pad, scale);

  const xOf = (level: number): number =>
    LABEL + ((flow.layers - level) / flow.layers) * (width - 2 * LABEL - BAR);
  const note = footnote(shown, theme, width, top + tall + 20);
  const marks: Mark[] = [
    ...legend(shown, options, 8, 14, mostChange(parts)),
    ...ribbons(links, columns, shown, options, xOf, scale, mostChange(parts)),
    ...bars(columns, shown, options, xOf, scale),
    ...heads(flow.layers, options, xOf, top),
    ...note.marks,
  ];
  return {
    width,
    height: top + tall + note.height + 14,
    marks,
    label: flowLabel(shown, "Sankey diagram"),
    table: flowTable(shown),
    edges: edgesOf(shown),
  };
}

function linkOf(bundle: Bundle): Link {
  const { layer, source, to } = bundle.edges[0] ?? { layer: 0, source: 0, to: 0 };
  return { layer, source, to, value: bundle.flow, bundle };
}

/** Per level, the tokens that a shown edge touches there or above and below, and where the trace begins. */
function keptTokens({ flow, edges }: ShownFlow): number[][] {
  const kept = Array.from({ length: flow.layers + 1 }, () => new Set<number>());
  for (const { layer, source, to } of edges) {
    kept[layer + 1]?.add(source);
    kept[layer]?.add(to);
  }
  if (flow.token !== null) kept[flow.direction === "back" ? flow.layers : 0]?.add(flow.token);
  // Between two levels where it is touched, a token is carried on by the skip connection.
  for (const token of new Set(kept.flatMap((tokens) => [...tokens]))) {
    const levels = kept.flatMap((tokens, level) => (tokens.has(token) ? [level] : []));
    kept.slice(levels[0], levels.at(-1)).forEach((tokens) => tokens.add(token));
  }
  return kept.map((tokens) => [...tokens].sort((x, y) => x - y));
}

function skipLinks(shown: ShownFlow, kept: readonly (readonly number[])[]): Link[] {
  return kept.slice(0, -1).flatMap((tokens, layer) => {
    const above = new Set(kept[layer + 1]);
    return tokens
      .filter((token) => above.has(token) && skippedAt(shown, layer, token) > 0)
      .map((token) => ({
        layer,
        source: token,
        to: token,
        value: skippedAt(shown, layer, token),
        bundle: null,
      }));
  });
}

function blocks(tokens: readonly number[], level: number, links: readonly Link[], shown: ShownFlow): Block[] {
  const into = new Map<number, number>();
  const out = new Map<number, number>();
  for (const { layer, source, to, value } of links) {
    if (layer === level) into.set(to, (into.get(to) ?? 0) + value);
    if (layer + 1 === level) out.set(source, (out.get(source) ?? 0) + value);
  }
  return tokens.map((token) => {
    const mass = massAt(shown, level, token);
    return { token, mass, size: Math.max(mass, into.get(token) ?? 0, out.get(token) ?? 0), y: 0 };
  });
}

/** One below the other, the column in the middle of the picture. */
function stack(column: Block[], top: number, tall: number, pad: number, scale: number): void {
  const height = column.reduce((sum, block) => sum + block.size * scale + pad, -pad);
  let y = top + (tall - height) / 2;
  for (const block of column) {
    block.y = y;
    y += block.size * scale + pad;
  }
}

function ribbons(
  links: readonly Link[],
  columns: readonly Block[][],
  shown: ShownFlow,
  options: FlowOptions,
  xOf: (level: number) => number,
  scale: number,
  change: number,
): Mark[] {
  const { tokens } = shown.flow;
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
  // By their ends, so that ribbons cross as little as they must.
  const order = [...links].sort((x, y) => x.layer - y.layer || x.source - y.source || x.to - y.to);
  const starts = new Map(order.map((link) => [link, take("out", link.layer + 1, link.source, link.value)]));
  order.sort((x, y) => x.layer - y.layer || x.to - y.to || x.source - y.source);
  const ends = new Map(order.map((link) => [link, take("in", link.layer, link.to, link.value)]));

  const path = (link: Link): Path => {
    const [x1, y1] = [xOf(link.layer + 1) + BAR, starts.get(link) ?? 0];
    const [x2, y2] = [xOf(link.layer), ends.get(link) ?? 0];
    const width = Math.max(0.5, link.value * scale);
    const area = ribbon(x1, y1, x2, y2, width);
    const names = [nameOf(tokens, link.source), nameOf(tokens, link.to)];
    const value = figure(link.value);
    if (!link.bundle) {
      const title = `layer ${link.layer}: ${value} stays at ${names[0]} by the skip connection`;
      return { kind: "path", commands: area, fill: options.theme.rule, opacity: 0.55, title };
    }
    const title = `layer ${link.layer}: ${names[0]} reads ${names[1]}, ${value} over all heads shown`;
    const found = { hit: { kind: "edge", index: link.bundle.edges[0]?.index ?? 0 } as const, title };
    const { stroke, opacity, ...style } = edgeStyle(link.bundle, shown, options, width, change);
    const shade = { ...(opacity === undefined ? {} : { opacity }), ...found };
    if (!style.dash) return { kind: "path", commands: area, ...(stroke ? { fill: stroke } : {}), ...shade };
    return {
      kind: "path",
      commands: line(x1, y1, x2, y2),
      ...(stroke ? { stroke } : {}),
      ...style,
      ...shade,
    };
  };
  const skips = links.filter((link) => !link.bundle);
  const flows = links.filter((link) => link.bundle).sort((x, y) => y.value - x.value);
  return [...skips, ...flows].map(path);
}

/** An area as high as the link is heavy, all along; a stroke would be so wide only where it is level. */
function ribbon(x1: number, y1: number, x2: number, y2: number, width: number): Command[] {
  const [middle, half] = [(x1 + x2) / 2, width / 2];
  return [
    ["M", x1, y1 - half],
    ["C", middle, y1 - half, middle, y2 - half, x2, y2 - half],
    ["L", x2, y2 + half],
    ["C", middle, y2 + half, middle, y1 + half, x1, y1 + half],
    ["Z"],
  ];
}

function line(x1: number, y1: number, x2: number, y2: number): Command[] {
  const middle = (x1 + x2) / 2;
  return [["M", x1, y1], ["C", middle, y1, middle, y2, x2, y2]]; // prettier-ignore
}

function bars(
  columns: readonly Block[][],
  shown: ShownFlow,
  { theme }: FlowOptions,
  xOf: (level: number) => number,
  scale: number,
): Mark[] {
  const { flow } = shown;
  return columns.flatMap((column, level) =>
    column.flatMap(({ token, mass, size, y }): Mark[] => {
      const x = xOf(level);
      const height = Math.max(1, size * scale);
      const hit = { kind: "token", token, level } as const;
      const title = `${nameOf(flow.tokens, token)} at level ${level}: ${massInWords(flow, mass)}`;
      const bar: Mark = { kind: "rect", x, y, width: BAR, height, fill: theme.ink, hit, title };
      const isEnd = level === 0 || level === flow.layers;
      if (!isEnd && height < 9) return [bar];
      const words = fit(labelOf(flow.tokens, token), isEnd ? 12 : 10, LABEL - 16);
      const middle = y + height / 2 + 4;
      const rest = { fill: theme.ink, size: isEnd ? 12 : 10, hit, title };
      if (level === flow.layers) return [bar, text(x - 6, middle, words, theme, { ...rest, anchor: "end" })];
      const label = text(x + BAR + 5, middle, words, theme, rest);
      return isEnd ? [bar, label] : [bar, behind(label, theme), label];
    }),
  );
}

function heads(layers: number, { theme }: FlowOptions, xOf: (level: number) => number, top: number): Mark[] {
  return Array.from({ length: layers }, (_, layer) =>
    text((xOf(layer) + xOf(layer + 1) + BAR) / 2, top - 12, `layer ${layer}`, theme, { anchor: "middle" }),
  );
}
