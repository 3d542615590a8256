/** Token Rings view (DeRose, Wang & Berger 2020): radius is the layer, the deepest in the centre; angle is the token. */

import type { Flow } from "../api/types";
import type { VisibleEdge, VisibleFlow } from "../flow/visibleFlow";
import { formatMass } from "../flow/layerShares";
import {
  bundleEdges,
  listEdgeIndices,
  getEdgeStyle,
  describeEdge,
  describeFlow,
  buildFlowTable,
  labelToken,
  drawFlowLegend,
  getMass,
  findLargestChange,
  nameToken,
  type FlowOptions,
} from "./flowmarks";
import { drawHeadGlyphs } from "./glyphs";
import { paperBehind, circle, polar, sector, text } from "./marks";
import type { Command, Mark, Scene } from "./scene";
import { drawShareFootnote } from "./layerMargins";
import { fitWidth } from "./text";

export const MOST_TOKENS = 40;
const LABEL = 84;
const CORE = 24;
const KEY =
  "Cells are heads: filled by what flows to the token through them, outlined where an edge shown passes. ";

/** Explain why a flow cannot be drawn as rings; null where it can. */
export function explainNoRings(flow: Flow): string | null {
  const tokens = flow.tokens.length;
  if (tokens <= MOST_TOKENS) return null;
  return `Rings have room for ${MOST_TOKENS} tokens, and this input has ${tokens}.`;
}

/** Radii and angles of the rings. */
export interface RingLayout {
  readonly cx: number;
  readonly cy: number;
  readonly pitch: number;
  readonly turn: number; // the angle of one token
  angle(token: number): number; // angle of a token's centre
  inner(layer: number): number; // radius at which the link gap ends and the band begins
  band(layer: number): number; // radius at which the band ends and the heads begin
  outer(layer: number): number;
}

/** Draw the rings view. */
export function drawRings(visible: VisibleFlow, options: FlowOptions): Scene {
  const { flow } = visible;
  const reason = explainNoRings(flow);
  if (reason !== null) return drawRefusal(reason, options);
  const top = visible.other ? 28 : 4;
  const size = Math.min(options.width, 860);
  const note = drawShareFootnote(visible, options.theme, options.width, top + size + 8, KEY);
  const place = layoutRings(flow, options.width / 2, top + size / 2, size / 2 - LABEL);
  const parts = bundleEdges(visible.edges, (edge) => String(edge.index));
  const change = findLargestChange(parts);
  const isSingle = (flow.nodes[flow.layers] ?? []).filter((mass) => mass > 0).length <= 1;
  const widest = Math.max(...visible.edges.map((edge) => edge.flow), 1e-12);
  const links = parts.flatMap((part) => part.edges.map((edge) => ({
      kind: "path" as const,
      commands: buildLink(edge, flow, place, isSingle),
      ...getEdgeStyle(part, visible, options, Math.max(0.7, (edge.flow / widest) * Math.min(7, place.pitch * 0.12)), change),
      hit: { kind: "edge" as const, index: edge.index },
      title: describeEdge(edge, visible),
    }))); // prettier-ignore
  return {
    width: options.width,
    height: top + size + note.height + 4,
    marks: [
      ...drawFlowLegend(visible, options, 8, 14, change),
      ...drawBands(visible, options, place),
      ...drawHeadGlyphs(visible, options, place),
      ...links,
      ...drawLayerNames(flow.layers, options, place),
      ...drawCentre(visible, options, place),
      ...drawLabels(visible, options, place),
      ...note.marks,
    ],
    label: describeFlow(visible, "Rings"),
    table: buildFlowTable(visible),
    edges: listEdgeIndices(visible),
  };
}

function drawRefusal(reason: string, { width, theme }: FlowOptions): Scene {
  const marks = [text(8, 24, reason, theme, { size: 12 })];
  return { width, height: 40, marks, label: reason, table: { columns: [], rows: [] }, edges: [] };
}

function layoutRings({ layers, tokens }: Flow, cx: number, cy: number, radius: number): RingLayout {
  const pitch = (radius - CORE) / layers;
  const turn = (2 * Math.PI) / tokens.length;
  const start = (layer: number): number => CORE + (layers - 1 - layer) * pitch;
  return {
    cx,
    cy,
    pitch,
    turn,
    angle: (token) => (token + 0.5) * turn,
    inner: (layer) => start(layer) + 0.48 * pitch,
    band: (layer) => start(layer) + 0.58 * pitch,
    outer: (layer) => start(layer) + pitch,
  };
}

/** Build the path of an edge from ring to ring, through the gap between them and across no ring. */
function buildLink(
  { layer, source, to }: VisibleEdge,
  flow: Flow,
  place: RingLayout,
  isSingle: boolean,
): Command[] {
  const end = place.angle(to);
  const isTop = layer === flow.layers - 1;
  const from = isTop && isSingle ? end : place.angle(source);
  const [r1, r2] = [isTop ? CORE : place.outer(layer + 1), place.inner(layer)];
  const way = normaliseAngle(end - from);
  const steps = Math.max(6, Math.ceil(Math.abs(way) * 16));
  return Array.from({ length: steps + 1 }, (_, step): Command => {
    const t = step / steps;
    const [x, y] = polar(place.cx, place.cy, r1 + (r2 - r1) * t, from + way * t * t * (3 - 2 * t));
    return [step === 0 ? "M" : "L", x, y];
  });
}

function normaliseAngle(angle: number): number {
  const turned = ((angle % (2 * Math.PI)) + 3 * Math.PI) % (2 * Math.PI);
  return turned - Math.PI;
}

/** Draw a band under each token that a layer's visible edges reach: its mass, or its model. */
function drawBands(visible: VisibleFlow, { theme }: FlowOptions, place: RingLayout): Mark[] {
  const { flow, other, edges } = visible;
  const marks: Mark[] = [];
  for (let layer = flow.layers - 1; layer >= 0; layer--) {
    const reached = new Map(bundleEdges(edges.filter((edge) => edge.layer === layer), ({ to }) => String(to)).map((part) => [part.edges[0]?.to, part])); // prettier-ignore
    flow.tokens.forEach((_, token) => {
      const part = reached.get(token);
      const mass = getMass(visible, layer, token);
      const whose =
        other && part
          ? { only: theme.flow, shared: theme.shared, a: theme.a, b: theme.b }[part.status]
          : undefined;
      const half = place.turn * 0.47;
      marks.push({
        kind: "path",
        commands: sector(
          place.cx,
          place.cy,
          place.inner(layer),
          place.band(layer),
          place.angle(token) - half,
          place.angle(token) + half,
        ),
        fill: part ? (whose ?? theme.flow) : theme.rule,
        hit: { kind: "token", token, level: layer },
        title: `${nameToken(flow.tokens, token)} at level ${layer}: ${formatMass(flow, mass)}`,
      });
    });
  }
  return marks;
}

/** Draw the layer names in the gap between last and first token. */
function drawLayerNames(
  layers: number,
  { theme }: FlowOptions,
  { cx, cy, inner, pitch }: RingLayout,
): Mark[] {
  return Array.from({ length: layers }, (_, layer) =>
    text(cx, cy - inner(layer) + 0.24 * pitch + 3, pitch < 48 ? String(layer) : `layer ${layer}`, theme, {
      anchor: "middle",
      size: 9,
    }),
  ).flatMap((name) => [paperBehind(name, theme), name]);
}

function drawCentre({ flow }: VisibleFlow, { theme }: FlowOptions, { cx, cy }: RingLayout): Mark[] {
  const top = flow.nodes[flow.layers] ?? [];
  const token = flow.direction === "back" && flow.token !== null ? flow.token : top.indexOf(Math.max(...top));
  const isOne = top.filter((mass) => mass > 0).length <= 1;
  return [
    { kind: "path", commands: circle(cx, cy, CORE), fill: theme.paper, stroke: theme.accent, strokeWidth: 2, hit: { kind: "token", token: Math.max(0, token), level: flow.layers }, title: `level ${flow.layers}, the deepest` },
    text(cx, cy + 4, fitWidth(isOne ? labelToken(flow.tokens, token) : "top", 11, CORE * 2 - 6), theme, { anchor: "middle", fill: theme.ink, bold: true }),
  ]; // prettier-ignore
}

function drawLabels({ flow }: VisibleFlow, { theme }: FlowOptions, place: RingLayout): Mark[] {
  return flow.tokens.map((token, i) => {
    const angle = place.angle(i);
    const isLeft = angle > Math.PI;
    const [x, y] = polar(place.cx, place.cy, place.outer(0) + 8, angle);
    const degrees = (angle * 180) / Math.PI - 90;
    // Half a line aside, so that the letters are centred on the ray.
    const [dx, dy] = polar(0, 0, 4 * (isLeft ? -1 : 1), angle + Math.PI / 2);
    return text(x + dx, y + dy, fitWidth(labelToken(flow.tokens, i), 12, LABEL - 12), theme, {
      size: 12,
      fill: token.special ? theme.dim : theme.ink,
      anchor: isLeft ? "end" : "start",
      rotate: isLeft ? degrees + 180 : degrees,
      hit: { kind: "token", token: i, level: 0 },
      title: `${nameToken(flow.tokens, i)}, token ${i}`,
    });
  });
}
