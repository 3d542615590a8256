/** Helpers shared by all flow views: edge strokes, bundles, names and descriptions, table, comparison legend. */

import type { Flow, Token } from "../api/types";
import type { VisibleEdge, VisibleFlow, EdgeStatus } from "../flow/visibleFlow";
import { describeLayerShares } from "../flow/layerShares";
import type { Specials } from "../state/state";
import { line, text } from "./marks";
import type { Mark, Path, TableData, Theme } from "./scene";
import { formatSignificant, quoteToken, shorten, showInvisible, measureWidth } from "./text";
import { mixColours } from "./theme";

/** Options of a flow view. */
export interface FlowOptions {
  readonly width: number;
  readonly theme: Theme;
  readonly specials?: Specials;
  readonly difference?: boolean; // comparison by values instead of sets
  readonly names?: readonly [string, string];
  readonly keep?: readonly number[]; // tokens that are never folded
}

type StrokeStyle = Pick<Path, "stroke" | "strokeWidth" | "dash" | "opacity">;

/** Return the stroke of a status; colour and dash both identify the model. */
export function getStatusStyle(status: EdgeStatus, theme: Theme, strokeWidth: number): StrokeStyle {
  switch (status) {
    case "a":
      return { stroke: theme.a, strokeWidth, dash: [5 + strokeWidth, 2.5 + strokeWidth / 2], opacity: 0.8 };
    case "b":
      return {
        stroke: theme.b,
        strokeWidth,
        dash: [Math.max(1.5, strokeWidth), 2 + strokeWidth / 2],
        opacity: 0.8,
      };
    case "shared":
      return { stroke: theme.shared, strokeWidth, opacity: 0.6 };
    case "only":
      return { stroke: theme.flow, strokeWidth, opacity: 0.6 };
  }
}

/** Return the stroke of an edge; in a difference, its colour is the change relative to the largest. */
export function getEdgeStyle(
  edge: Bundle,
  visible: VisibleFlow,
  options: FlowOptions,
  width: number,
  most: number,
): StrokeStyle {
  if (!visible.other || !options.difference) return getStatusStyle(edge.status, options.theme, width);
  return {
    stroke: getChangeColour(options.theme, (edge.b - edge.a) / (most || 1)),
    strokeWidth: width,
    opacity: 0.9,
  };
}

/** Return the colour of a change. It starts at the rule colour, not at paper: unchanged lines stay visible. */
function getChangeColour(theme: Theme, value: number): string {
  return mixColours(theme.rule, theme.difference(Math.sign(value)), Math.abs(value));
}

/** Edges drawn as one, such as all heads between two tokens. */
export interface Bundle {
  readonly edges: readonly VisibleEdge[];
  readonly flow: number;
  readonly a: number;
  readonly b: number;
  readonly status: EdgeStatus;
}

/** Bundle edges of the same name, in the order of first appearance. */
export function bundleEdges(edges: readonly VisibleEdge[], name: (edge: VisibleEdge) => string): Bundle[] {
  const groups = new Map<string, VisibleEdge[]>();
  for (const edge of edges) {
    const key = name(edge);
    const group = groups.get(key);
    if (group) group.push(edge);
    else groups.set(key, [edge]);
  }
  return [...groups.values()].map((group) => ({
    edges: group,
    flow: sumBy(group, (edge) => edge.flow),
    a: sumBy(group, (edge) => edge.a),
    b: sumBy(group, (edge) => edge.b),
    status: mergeStatus(group),
  }));
}

function mergeStatus(edges: readonly VisibleEdge[]): EdgeStatus {
  const result = new Set(edges.map((edge) => edge.status));
  return result.size === 1 ? (edges[0]?.status ?? "only") : "shared";
}

/** Sum a value over items. */
export function sumBy<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}

/** Find the largest change of any bundle, the end of the colour scale. */
export function findLargestChange(parts: readonly Bundle[]): number {
  return parts.reduce((most, part) => Math.max(most, Math.abs(part.b - part.a)), 0);
}

// Every mark needs names, so those of one input are cached.
const NAMES_OF_TOKENS = new WeakMap<readonly Token[], string[]>();

/** Name a token in sentences, quoted; the names of one input are cached. */
export function nameToken(tokens: readonly Token[], index: number): string {
  let names = NAMES_OF_TOKENS.get(tokens);
  if (!names) NAMES_OF_TOKENS.set(tokens, (names = tokens.map((token) => quoteToken(token.text))));
  return names[index] ?? quoteToken("");
}

/** Label a token in a picture. */
export function labelToken(tokens: readonly Token[], index: number): string {
  return showInvisible(tokens[index]?.text ?? "");
}

const WHOSE: Record<EdgeStatus, string> = {
  only: "",
  shared: ", in both",
  a: ", only in A",
  b: ", only in B",
};

/** Describe an edge in one line. */
export function describeEdge(edge: VisibleEdge, { flow, other }: VisibleFlow): string {
  const where = edge.head < 0 ? `layer ${edge.layer}` : `layer ${edge.layer}, head ${edge.head}`;
  const what = other
    ? `flow A ${formatSignificant(edge.a)}, B ${formatSignificant(edge.b)}`
    : `flow ${formatSignificant(edge.flow)}`;
  const ends = `${nameToken(flow.tokens, edge.source)} reads ${nameToken(flow.tokens, edge.to)}`;
  return `${where}: ${ends}, ${what}, weight ${formatSignificant(edge.weight)}${WHOSE[edge.status]}`;
}

/** Return the mass at a level of the trace; of two models, the mean. */
export function getMass({ flow, other }: VisibleFlow, level: number, token: number): number {
  const mass = flow.nodes[level]?.[token] ?? 0;
  return other ? (mass + (other.nodes[level]?.[token] ?? 0)) / 2 : mass;
}

/** Return the mass that skips a layer at a token; of two models, the mean. */
export function getSkippedMass({ flow, other }: VisibleFlow, layer: number, token: number): number {
  const mass = flow.residual[layer]?.[token] ?? 0;
  return other ? (mass + (other.residual[layer]?.[token] ?? 0)) / 2 : mass;
}

/** Name the root of the trace. */
export function nameRoot(flow: Flow): string {
  if (flow.token !== null) return nameToken(flow.tokens, flow.token);
  return nameDecision(flow);
}

function nameDecision(flow: Flow): string {
  if (!flow.target) return "the first token";
  return flow.class_free ? "the decision" : `the decision for ${quoteToken(flow.target.label)}`;
}

/** Name the trace, as a heading of the picture. */
export function nameTrace(flow: Flow): string {
  if (flow.token === null)
    return flow.target && flow.class_free ? "the decision, the same whichever class" : nameDecision(flow);
  const word = nameToken(flow.tokens, flow.token);
  return {
    back: `back from ${word}`,
    forward: `forward from ${word}`,
    through: `from ${nameDecision(flow)} back to ${word}`,
  }[flow.direction];
}

/** Describe a picture of the flow in one sentence. */
export function describeFlow(visible: VisibleFlow, view: string): string {
  const { flow, edges } = visible;
  const way = { back: "back from", forward: "forward from", through: "to the word" }[flow.direction];
  const head = `${view}: ${edges.length} edges of the flow ${way} ${nameRoot(flow)}`;
  if (visible.jaccard === null) return `${head}: ${describeLayerShares(visible)}.`;
  const count = (status: EdgeStatus) => edges.filter((edge) => edge.status === status).length;
  return `${head} in A or B: ${count("shared")} shared, ${count("a")} only in A, ${count("b")} only in B, Jaccard ${formatSignificant(visible.jaccard)}.`;
}

const PLACES: Record<EdgeStatus, string> = { only: "", shared: "both", a: "A", b: "B" };

/** Build the table of the edges, the strongest first. */
export function buildFlowTable({ flow, other, edges }: VisibleFlow): TableData {
  const columns = ["layer", "head", "from", "from token", "to", "to token", "weight"];
  const influence = other ? null : flow.influence;
  const rows = edges.map((edge) => [
    edge.layer,
    edge.head < 0 ? "all" : edge.head,
    edge.source,
    flow.tokens[edge.source]?.text ?? "",
    edge.to,
    flow.tokens[edge.to]?.text ?? "",
    edge.weight,
    ...(other ? [edge.a, edge.b, edge.b - edge.a, PLACES[edge.status]] : [edge.flow]),
    ...(influence ? [influence.values[edge.layer]?.[edge.to] ?? 0] : []),
  ]);
  const flows = other ? ["flow A", "flow B", "B − A", "in"] : ["flow"];
  return { columns: [...columns, ...flows, ...(influence ? ["influence of to"] : [])], rows };
}

/** List the indices of the visible edges. */
export function listEdgeIndices({ edges }: VisibleFlow): number[] {
  return edges.map((edge) => edge.index);
}

/** Draw the legend of a comparison: A, B and shared with their counts; names are dropped where room is short. */
export function drawFlowLegend(
  visible: VisibleFlow,
  options: FlowOptions,
  x: number,
  y: number,
  most: number,
): Mark[] {
  if (!visible.other) return [];
  const { theme, names, width } = options;
  const named = ["A", "B"].map((letter, i) =>
    names ? `${letter} (${shorten(names[i] ?? "", 24)})` : letter,
  );
  const isWide = measureWidth(named.join(""), 11) + 330 <= width - x;
  const [a, b] = isWide ? named : ["A", "B"];
  if (options.difference) return drawDifferenceLegend(theme, most, a ?? "A", b ?? "B", x, y);
  const entries: [EdgeStatus, string][] = [["shared", "shared"], ["a", `only ${a}`], ["b", `only ${b}`]]; // prettier-ignore
  let left = x;
  return entries.flatMap(([status, name]) => {
    const words = `${name}: ${visible.edges.filter((edge) => edge.status === status).length}`;
    const sample: Path = { ...line(left, y, left + 26, y, ""), ...getStatusStyle(status, theme, 2.5) };
    const label = text(left + 32, y + 4, words, theme);
    left += 32 + measureWidth(words, 11) + 14;
    return [sample, label];
  });
}

function drawDifferenceLegend(
  theme: Theme,
  most: number,
  a: string,
  b: string,
  x: number,
  y: number,
): Mark[] {
  const marks: Mark[] = [text(x, y + 4, `more in ${a}  −${formatSignificant(most)}`, theme)];
  const left = x + measureWidth(`more in ${a}  −${formatSignificant(most)}`, 11) + 8;
  for (let i = 0; i < 21; i++) {
    marks.push({
      kind: "rect",
      x: left + i * 5,
      y: y - 4,
      width: 5,
      height: 9,
      fill: getChangeColour(theme, (i - 10) / 10),
    });
  }
  marks.push(text(left + 113, y + 4, `+${formatSignificant(most)}  more in ${b}`, theme));
  return marks;
}
