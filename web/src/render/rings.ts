/** Token Rings (DeRose, Wang & Berger 2020): radius is the layer, the deepest in the centre; every token keeps its angle. */

import type { Flow } from "../api/types";
import type { ShownEdge, ShownFlow } from "../flow/shown";
import { massInWords } from "../flow/unit";
import {
  bundles,
  edgesOf,
  edgeStyle,
  edgeTitle,
  flowLabel,
  flowTable,
  labelOf,
  legend,
  massAt,
  mostChange,
  nameOf,
  type FlowOptions,
} from "./flowmarks";
import { glyphs } from "./glyphs";
import { behind, circle, polar, sector, text } from "./marks";
import type { Command, Mark, Scene } from "./scene";
import { footnote } from "./sinks";
import { fit } from "./text";

export const MOST_TOKENS = 40;
const LABEL = 84;
const CORE = 24;
const KEY =
  "Cells are heads: filled by what flows to the token through them, outlined where an edge shown passes. ";

/** Why there is no ring layout for a flow; null where there is. */
export function whyNoRings(flow: Flow): string | null {
  const tokens = flow.tokens.length;
  if (tokens <= MOST_TOKENS) return null;
  return `Rings have room for ${MOST_TOKENS} tokens, and this input has ${tokens}.`;
}

/** Where the rings of a scene lie. */
export interface Rings {
  readonly cx: number;
  readonly cy: number;
  readonly pitch: number;
  readonly turn: number; // the angle of one token
  angle(token: number): number; // of its middle
  inner(layer: number): number; // where the gap for links ends and the label band begins
  band(layer: number): number; // where the band ends and the heads begin
  outer(layer: number): number;
}

export function rings(shown: ShownFlow, options: FlowOptions): Scene {
  const { flow } = shown;
  const reason = whyNoRings(flow);
  if (reason !== null) return refused(reason, options);
  const top = shown.other ? 28 : 4;
  const size = Math.min(options.width, 860);
  const note = footnote(shown, options.theme, options.width, top + size + 8, KEY);
  const place = layout(flow, options.width / 2, top + size / 2, size / 2 - LABEL);
  const parts = bundles(shown.edges, (edge) => String(edge.index));
  const change = mostChange(parts);
  const isSingle = (flow.nodes[flow.layers] ?? []).filter((mass) => mass > 0).length <= 1;
  const widest = Math.max(...shown.edges.map((edge) => edge.flow), 1e-12);
  const links = parts.flatMap((part) => part.edges.map((edge) => ({
      kind: "path" as const,
      commands: link(edge, flow, place, isSingle),
      ...edgeStyle(part, shown, options, Math.max(0.7, (edge.flow / widest) * Math.min(7, place.pitch * 0.12)), change),
      hit: { kind: "edge" as const, index: edge.index },
      title: edgeTitle(edge, shown),
    }))); // prettier-ignore
  return {
    width: options.width,
    height: top + size + note.height + 4,
    marks: [
      ...legend(shown, options, 8, 14, change),
      ...bands(shown, options, place),
      ...glyphs(shown, options, place),
      ...links,
      ...names(flow.layers, options, place),
      ...centre(shown, options, place),
      ...labels(shown, options, place),
      ...note.marks,
    ],
    label: flowLabel(shown, "Rings"),
    table: flowTable(shown),
    edges: edgesOf(shown),
  };
}

function refused(reason: string, { width, theme }: FlowOptions): Scene {
  const marks = [text(8, 24, reason, theme, { size: 12 })];
  return { width, height: 40, marks, label: reason, table: { columns: [], rows: [] }, edges: [] };
}

function layout({ layers, tokens }: Flow, cx: number, cy: number, radius: number): Rings {
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

/** From the ring above, or the centre, to the ring below; it winds through the gap between them and crosses no ring. */
function link({ layer, source, to }: ShownEdge, flow: Flow, place: Rings, isSingle: boolean): Command[] {
  const end = place.angle(to);
  const isTop = layer === flow.layers - 1;
  const from = isTop && isSingle ? end : place.angle(source);
  const [r1, r2] = [isTop ? CORE : place.outer(layer + 1), place.inner(layer)];
  const way = shortest(end - from);
  const steps = Math.max(6, Math.ceil(Math.abs(way) * 16));
  return Array.from({ length: steps + 1 }, (_, step): Command => {
    const t = step / steps;
    const [x, y] = polar(place.cx, place.cy, r1 + (r2 - r1) * t, from + way * t * t * (3 - 2 * t));
    return [step === 0 ? "M" : "L", x, y];
  });
}

function shortest(angle: number): number {
  const turned = ((angle % (2 * Math.PI)) + 3 * Math.PI) % (2 * Math.PI);
  return turned - Math.PI;
}

/** A band under each token that the shown edges of a layer reach: its mass, or whose it is. */
function bands(shown: ShownFlow, { theme }: FlowOptions, place: Rings): Mark[] {
  const { flow, other, edges } = shown;
  const marks: Mark[] = [];
  for (let layer = flow.layers - 1; layer >= 0; layer--) {
    const reached = new Map(bundles(edges.filter((edge) => edge.layer === layer), ({ to }) => String(to)).map((part) => [part.edges[0]?.to, part])); // prettier-ignore
    flow.tokens.forEach((_, token) => {
      const part = reached.get(token);
      const mass = massAt(shown, layer, token);
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
        title: `${nameOf(flow.tokens, token)} at level ${layer}: ${massInWords(flow, mass)}`,
      });
    });
  }
  return marks;
}

/** Between the last token and the first, in the gap that the layer's links run through. */
function names(layers: number, { theme }: FlowOptions, { cx, cy, inner, pitch }: Rings): Mark[] {
  return Array.from({ length: layers }, (_, layer) =>
    text(cx, cy - inner(layer) + 0.24 * pitch + 3, pitch < 48 ? String(layer) : `layer ${layer}`, theme, {
      anchor: "middle",
      size: 9,
    }),
  ).flatMap((name) => [behind(name, theme), name]);
}

function centre({ flow }: ShownFlow, { theme }: FlowOptions, { cx, cy }: Rings): Mark[] {
  const top = flow.nodes[flow.layers] ?? [];
  const token = flow.direction === "back" && flow.token !== null ? flow.token : top.indexOf(Math.max(...top));
  const isOne = top.filter((mass) => mass > 0).length <= 1;
  return [
    { kind: "path", commands: circle(cx, cy, CORE), fill: theme.paper, stroke: theme.accent, strokeWidth: 2, hit: { kind: "token", token: Math.max(0, token), level: flow.layers }, title: `level ${flow.layers}, the deepest` },
    text(cx, cy + 4, fit(isOne ? labelOf(flow.tokens, token) : "top", 11, CORE * 2 - 6), theme, { anchor: "middle", fill: theme.ink, bold: true }),
  ]; // prettier-ignore
}

function labels({ flow }: ShownFlow, { theme }: FlowOptions, place: Rings): Mark[] {
  return flow.tokens.map((token, i) => {
    const angle = place.angle(i);
    const isLeft = angle > Math.PI;
    const [x, y] = polar(place.cx, place.cy, place.outer(0) + 8, angle);
    const degrees = (angle * 180) / Math.PI - 90;
    // Half a line to the side, so that the middle of the letters lies on the ray.
    const [dx, dy] = polar(0, 0, 4 * (isLeft ? -1 : 1), angle + Math.PI / 2);
    return text(x + dx, y + dy, fit(labelOf(flow.tokens, i), 12, LABEL - 12), theme, {
      size: 12,
      fill: token.special ? theme.dim : theme.ink,
      anchor: isLeft ? "end" : "start",
      rotate: isLeft ? degrees + 180 : degrees,
      hit: { kind: "token", token: i, level: 0 },
      title: `${nameOf(flow.tokens, i)}, token ${i}`,
    });
  });
}
