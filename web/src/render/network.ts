/** Network view: tokens linked by their flow over all layers and heads. The layout is deterministic. */

import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";
import { findActiveTokens } from "../flow/idleTokens";
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
  findLargestChange,
  nameToken,
  type Bundle,
  type FlowOptions,
} from "./flowmarks";
import { paperBehind, circle, text } from "./marks";
import type { Command, Mark, Path, Scene } from "./scene";
import { drawShareFootnote } from "./layerMargins";
import { formatSignificant, fitWidth, measureWidth } from "./text";

// Ticks by network size, from fixed positions: the layout does not depend on time or chance.
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

/** Draw the network view. */
export function drawNetwork(visible: VisibleFlow, options: FlowOptions): Scene {
  const { theme, width } = options;
  const top = visible.other ? 28 : 0;
  const parts = bundleEdges(visible.edges, ({ source, to }) => `${source} ${to}`);
  const height = Math.max(320, Math.min(640, width * 0.55));
  const nodes = layoutNodes(visible, options, parts, width, height);
  const at = new Map(nodes.map((node) => [node.token, node]));
  const widest = Math.max(...parts.map((part) => part.flow), 1e-12);
  const change = findLargestChange(parts);

  const links = parts.flatMap((part): Mark[] => {
    const first = part.edges[0];
    const [from, to] = [at.get(first?.source ?? -1), at.get(first?.to ?? -1)];
    if (!first || !from || !to) return [];
    const style = getEdgeStyle(part, visible, options, Math.max(0.6, (part.flow / widest) * 9), change);
    const ways = part.edges.length === 1 ? "1 edge" : `${part.edges.length} edges`;
    const value = visible.other
      ? `A ${formatSignificant(part.a)}, B ${formatSignificant(part.b)}`
      : formatSignificant(part.flow);
    const title = `${nameToken(visible.flow.tokens, first.source)} reads ${nameToken(visible.flow.tokens, first.to)}: ${value} by ${ways}`;
    const hit = { kind: "edge" as const, index: first.index };
    if (from === to) return [{ ...drawLoop(from), ...style, hit, title }];
    return [
      { ...drawLink(from, to), ...style, hit, title },
      { ...drawArrowHead(from, to, style.strokeWidth ?? 1), fill: style.stroke ?? theme.flow },
    ];
  });
  const moved = [...links, ...nodes.flatMap((node) => drawNode(node, visible, options))].map((mark) =>
    moveDown(mark, top),
  );
  const note = drawShareFootnote(
    visible,
    theme,
    width,
    top + height + 14,
    "Arrows lead from who reads to what is read. ",
  );
  return {
    width,
    height: top + height + note.height + 8,
    marks: [...drawFlowLegend(visible, options, 8, 14, change), ...moved, ...note.marks],
    label: describeFlow(visible, "Network"),
    table: buildFlowTable(visible),
    edges: listEdgeIndices(visible),
  };
}

/** Lay out the tokens: they start on an ellipse in text order, and forces pull them along the flow. */
function layoutNodes(
  visible: VisibleFlow,
  options: FlowOptions,
  parts: readonly Bundle[],
  width: number,
  height: number,
): Node[] {
  const tokens = [...findActiveTokens(visible, options.keep)].sort((x, y) => x - y);
  const shares = tokens.map((token) => getShare(visible, token));
  const most = Math.max(...shares, 1e-12);
  const nodes = tokens.map((token, i): Node => {
    const angle = (2 * Math.PI * i) / tokens.length - Math.PI / 2;
    const radius = 4 + 9 * Math.sqrt((shares[i] ?? 0) / most);
    const label = fitWidth(labelToken(visible.flow.tokens, token), 12, LABEL);
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
    .force("apart", forceCollide<Node>((node) => Math.max(node.radius + 10, measureWidth(node.label, 12) / 2 + 6)))
    .force("x", forceX(0).strength(0.04))
    .force("y", forceY(0).strength(0.09))
    .stop()
    .tick(Math.round(Math.min(TICKS.most, Math.max(TICKS.least, TICKS.work / (nodes.length + links.length))))); // prettier-ignore
  return scaleToFit(nodes, width, height);
}

function getShare({ flow, other }: VisibleFlow, token: number): number {
  const share = flow.shares[token] ?? 0;
  return other ? (share + (other.shares[token] ?? 0)) / 2 : share;
}

/** Scale the layout into the picture, never beyond its own size. */
function scaleToFit(nodes: Node[], width: number, height: number): Node[] {
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

/** Find the control point of a link, left of its direction, so that both directions stay apart. */
function findBendPoint(from: Node, to: Node): readonly [number, number] {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  return [(from.x + to.x) / 2 + dy * 0.18, (from.y + to.y) / 2 - dx * 0.18];
}

function drawLink(from: Node, to: Node): Path {
  const [mx, my] = findBendPoint(from, to);
  const [ax, ay] = [from.x + (mx - from.x) * 0.67, from.y + (my - from.y) * 0.67];
  const [bx, by] = [to.x + (mx - to.x) * 0.67, to.y + (my - to.y) * 0.67];
  return { kind: "path", commands: [["M", from.x, from.y], ["C", ax, ay, bx, by, to.x, to.y]] }; // prettier-ignore
}

/** Draw the arrow head at the rim of the token that is read. */
function drawArrowHead(from: Node, to: Node, width: number): Path {
  const [mx, my] = findBendPoint(from, to);
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

function drawLoop({ x, y, radius }: Node): Path {
  return { kind: "path", commands: circle(x, y - radius - 7, 9) };
}

function drawNode(
  { token, x, y, radius, label }: Node,
  visible: VisibleFlow,
  { theme }: FlowOptions,
): Mark[] {
  const { flow } = visible;
  const hit = { kind: "token", token, level: 0 } as const;
  const title = `${nameToken(flow.tokens, token)}: ${formatMass(flow, getShare(visible, token))} ends here`;
  const isRoot =
    flow.token === token || (flow.token === null && (flow.nodes[flow.layers]?.[token] ?? 0) > 0.5);
  const ring = isRoot
    ? { stroke: theme.accent, strokeWidth: 2.5 }
    : { stroke: theme.paper, strokeWidth: 1.5 };
  const fill = flow.tokens[token]?.special ? theme.dim : theme.ink;
  const name = text(x, y + radius + 15, label, theme, { size: 12, fill, anchor: "middle", hit, title });
  return [
    paperBehind(name, theme),
    { kind: "path", commands: circle(x, y, radius), fill, ...ring, hit, title },
    name,
  ];
}

function moveDown(mark: Mark, by: number): Mark {
  if (mark.kind !== "path") return { ...mark, y: mark.y + by };
  return { ...mark, commands: mark.commands.map((command) => shiftCommand(command, by)) };
}

function shiftCommand(command: Command, by: number): Command {
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
