/** Tokens as a network: what reads what, over all layers and heads together. The same flow gives the same picture. */

import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";
import { active } from "../flow/fold";
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
  mostChange,
  nameOf,
  type Bundle,
  type FlowOptions,
} from "./flowmarks";
import { behind, circle, text } from "./marks";
import type { Command, Mark, Path, Scene } from "./scene";
import { footnote } from "./sinks";
import { figure, fit, widthOf } from "./text";

// As many as the size of the network says, from the same places: nothing here depends on time or chance.
const TICKS = { least: 30, most: 240, work: 60_000 };
const MARGIN = 48;
const LABEL = 110;

interface Node {
  readonly token: number;
  readonly radius: number;
  readonly label: string;
  x: number;
  y: number;
}

export function network(shown: ShownFlow, options: FlowOptions): Scene {
  const { theme, width } = options;
  const top = shown.other ? 28 : 0;
  const parts = bundles(shown.edges, ({ source, to }) => `${source} ${to}`);
  const height = Math.max(320, Math.min(640, width * 0.55));
  const nodes = placed(shown, options, parts, width, height);
  const at = new Map(nodes.map((node) => [node.token, node]));
  const widest = Math.max(...parts.map((part) => part.flow), 1e-12);
  const change = mostChange(parts);

  const links = parts.flatMap((part): Mark[] => {
    const first = part.edges[0];
    const [from, to] = [at.get(first?.source ?? -1), at.get(first?.to ?? -1)];
    if (!first || !from || !to) return [];
    const style = edgeStyle(part, shown, options, Math.max(0.6, (part.flow / widest) * 9), change);
    const ways = part.edges.length === 1 ? "1 edge" : `${part.edges.length} edges`;
    const value = shown.other ? `A ${figure(part.a)}, B ${figure(part.b)}` : figure(part.flow);
    const title = `${nameOf(shown.flow.tokens, first.source)} reads ${nameOf(shown.flow.tokens, first.to)}: ${value} by ${ways}`;
    const hit = { kind: "edge" as const, index: first.index };
    if (from === to) return [{ ...loop(from), ...style, hit, title }];
    return [
      { ...way(from, to), ...style, hit, title },
      { ...tip(from, to, style.strokeWidth ?? 1), fill: style.stroke ?? theme.flow },
    ];
  });
  const moved = [...links, ...nodes.flatMap((node) => drawn(node, shown, options))].map((mark) =>
    lowered(mark, top),
  );
  const note = footnote(
    shown,
    theme,
    width,
    top + height + 14,
    "Arrows lead from who reads to what is read. ",
  );
  return {
    width,
    height: top + height + note.height + 8,
    marks: [...legend(shown, options, 8, 14, change), ...moved, ...note.marks],
    label: flowLabel(shown, "Network"),
    table: flowTable(shown),
    edges: edgesOf(shown),
  };
}

/** Tokens begin on an ellipse in their order, and are pulled together by what flows between them. */
function placed(
  shown: ShownFlow,
  options: FlowOptions,
  parts: readonly Bundle[],
  width: number,
  height: number,
): Node[] {
  const tokens = [...active(shown, options.keep)].sort((x, y) => x - y);
  const shares = tokens.map((token) => shareOf(shown, token));
  const most = Math.max(...shares, 1e-12);
  const nodes = tokens.map((token, i): Node => {
    const angle = (2 * Math.PI * i) / tokens.length - Math.PI / 2;
    const radius = 4 + 9 * Math.sqrt((shares[i] ?? 0) / most);
    const label = fit(labelOf(shown.flow.tokens, token), 12, LABEL);
    return { token, radius, label, x: 300 * Math.cos(angle), y: 160 * Math.sin(angle) };
  });
  const place = new Map(nodes.map((node, i) => [node.token, i]));
  const widest = Math.max(...parts.map((part) => part.flow), 1e-12);
  const links = parts.flatMap((part) => {
    const { source, to } = part.edges[0] ?? { source: -1, to: -1 };
    const [a, b] = [place.get(source), place.get(to)];
    return a === undefined || b === undefined || a === b
      ? []
      : [{ source: a, target: b, pull: part.flow / widest }];
  });
  forceSimulation(nodes)
    .force("link", forceLink(links).distance(110).strength((link) => 0.05 + 0.35 * link.pull))
    .force("charge", forceManyBody().strength(-420))
    .force("apart", forceCollide<Node>((node) => Math.max(node.radius + 10, widthOf(node.label, 12) / 2 + 6)))
    .force("x", forceX(0).strength(0.04))
    .force("y", forceY(0).strength(0.09))
    .stop()
    .tick(Math.round(Math.min(TICKS.most, Math.max(TICKS.least, TICKS.work / (nodes.length + links.length))))); // prettier-ignore
  return fitted(nodes, width, height);
}

function shareOf({ flow, other }: ShownFlow, token: number): number {
  const share = flow.shares[token] ?? 0;
  return other ? (share + (other.shares[token] ?? 0)) / 2 : share;
}

/** Scaled so that all are inside; never enlarged beyond what the forces made. */
function fitted(nodes: Node[], width: number, height: number): Node[] {
  const [xs, ys] = [nodes.map((node) => node.x), nodes.map((node) => node.y)];
  const [left, right, up, down] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const [roomX, roomY] = [width - 2 * (MARGIN + 12), height - 2 * MARGIN];
  const scaleX = Math.min(1.4, roomX / Math.max(1, right - left));
  const scaleY = Math.min(1.4, roomY / Math.max(1, down - up));
  for (const node of nodes) {
    node.x = width / 2 + (node.x - (left + right) / 2) * scaleX;
    node.y = height / 2 + (node.y - (up + down) / 2) * scaleY;
  }
  return nodes;
}

/** The point towards which a line bends: to the left of its way, so that there and back do not lie on each other. */
function bend(from: Node, to: Node): readonly [number, number] {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  return [(from.x + to.x) / 2 + dy * 0.18, (from.y + to.y) / 2 - dx * 0.18];
}

function way(from: Node, to: Node): Path {
  const [mx, my] = bend(from, to);
  const [ax, ay] = [from.x + (mx - from.x) * 0.67, from.y + (my - from.y) * 0.67];
  const [bx, by] = [to.x + (mx - to.x) * 0.67, to.y + (my - to.y) * 0.67];
  return { kind: "path", commands: [["M", from.x, from.y], ["C", ax, ay, bx, by, to.x, to.y]] }; // prettier-ignore
}

/** The arrow's head, at the rim of what is read. */
function tip(from: Node, to: Node, width: number): Path {
  const [mx, my] = bend(from, to);
  const length = Math.hypot(to.x - mx, to.y - my) || 1;
  const [ux, uy] = [(to.x - mx) / length, (to.y - my) / length];
  const [x, y] = [to.x - ux * (to.radius + 1.5), to.y - uy * (to.radius + 1.5)];
  const [long, half] = [6 + width * 0.9, 2.5 + width * 0.6];
  return {
    kind: "path",
    commands: [
      ["M", x, y],
      ["L", x - ux * long - uy * half, y - uy * long + ux * half],
      ["L", x - ux * long + uy * half, y - uy * long - ux * half],
      ["Z"],
    ],
  };
}

function loop({ x, y, radius }: Node): Path {
  return { kind: "path", commands: circle(x, y - radius - 7, 9) };
}

function drawn({ token, x, y, radius, label }: Node, shown: ShownFlow, { theme }: FlowOptions): Mark[] {
  const { flow } = shown;
  const hit = { kind: "token", token, level: 0 } as const;
  const title = `${nameOf(flow.tokens, token)}: ${massInWords(flow, shareOf(shown, token))} ends here`;
  const isRoot =
    flow.token === token || (flow.token === null && (flow.nodes[flow.layers]?.[token] ?? 0) > 0.5);
  const ring = isRoot
    ? { stroke: theme.accent, strokeWidth: 2.5 }
    : { stroke: theme.paper, strokeWidth: 1.5 };
  const fill = flow.tokens[token]?.special ? theme.dim : theme.ink;
  const name = text(x, y + radius + 15, label, theme, { size: 12, fill, anchor: "middle", hit, title });
  return [
    behind(name, theme),
    { kind: "path", commands: circle(x, y, radius), fill, ...ring, hit, title },
    name,
  ];
}

function lowered(mark: Mark, by: number): Mark {
  if (mark.kind !== "path") return { ...mark, y: mark.y + by };
  return { ...mark, commands: mark.commands.map((command) => shift(command, by)) };
}

function shift(command: Command, by: number): Command {
  switch (command[0]) {
    case "C":
      return ["C", command[1], command[2] + by, command[3], command[4] + by, command[5], command[6] + by];
    case "A":
      return ["A", command[1], command[2], command[3], command[4], command[5], command[6], command[7] + by];
    case "Z":
      return command;
    default:
      return [command[0], command[1], command[2] + by];
  }
}
