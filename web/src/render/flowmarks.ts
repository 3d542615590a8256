/** What all views of a flow share: how an edge looks, what it is called, the table, and the legend of a comparison. */

import type { Flow, Token } from "../api/types";
import type { ShownEdge, ShownFlow, Status } from "../flow/shown";
import { unitInWords } from "../flow/unit";
import type { Specials } from "../state/state";
import { line, text } from "./marks";
import type { Mark, Path, Table, Theme } from "./scene";
import { figure, quoted, shorten, visible, widthOf } from "./text";
import { mix } from "./theme";

export interface FlowOptions {
  readonly width: number;
  readonly theme: Theme;
  readonly specials?: Specials;
  readonly difference?: boolean; // of two models: values instead of sets
  readonly names?: readonly [string, string];
  readonly keep?: readonly number[]; // tokens that are never folded away
}

type Style = Pick<Path, "stroke" | "strokeWidth" | "dash" | "opacity">;

/** How a stroke of this status looks: colour and pattern both say whose it is. */
export function styleOf(status: Status, theme: Theme, strokeWidth: number): Style {
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

/** The same, where values of two models are asked for: colour is the change, relative to the largest. */
export function edgeStyle(
  edge: Bundle,
  shown: ShownFlow,
  options: FlowOptions,
  width: number,
  most: number,
): Style {
  if (!shown.other || !options.difference) return styleOf(edge.status, options.theme, width);
  return {
    stroke: changed(options.theme, (edge.b - edge.a) / (most || 1)),
    strokeWidth: width,
    opacity: 0.9,
  };
}

/** A line that did not change is still a line: it begins at the colour of rules, not at that of paper. */
function changed(theme: Theme, value: number): string {
  return mix(theme.rule, theme.difference(Math.sign(value)), Math.abs(value));
}

/** Edges drawn as one: those that differ only in what a view adds up over. */
export interface Bundle {
  readonly edges: readonly ShownEdge[];
  readonly flow: number;
  readonly a: number;
  readonly b: number;
  readonly status: Status;
}

/** Add edges up that have the same name; in the order in which each name comes first. */
export function bundles(edges: readonly ShownEdge[], name: (edge: ShownEdge) => string): Bundle[] {
  const groups = new Map<string, ShownEdge[]>();
  for (const edge of edges) {
    const key = name(edge);
    const group = groups.get(key);
    if (group) group.push(edge);
    else groups.set(key, [edge]);
  }
  return [...groups.values()].map((group) => ({
    edges: group,
    flow: sum(group, (edge) => edge.flow),
    a: sum(group, (edge) => edge.a),
    b: sum(group, (edge) => edge.b),
    status: together(group),
  }));
}

function together(edges: readonly ShownEdge[]): Status {
  const found = new Set(edges.map((edge) => edge.status));
  return found.size === 1 ? (edges[0]?.status ?? "only") : "shared";
}

export function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}

/** The largest change of any bundle, by which changes are coloured. */
export function mostChange(parts: readonly Bundle[]): number {
  return parts.reduce((most, part) => Math.max(most, Math.abs(part.b - part.a)), 0);
}

// Names are asked for by every mark of a picture; those of one input are made once.
const named = new WeakMap<readonly Token[], string[]>();

export function nameOf(tokens: readonly Token[], index: number): string {
  let names = named.get(tokens);
  if (!names) named.set(tokens, (names = tokens.map((token) => quoted(token.text))));
  return names[index] ?? quoted("");
}

export function labelOf(tokens: readonly Token[], index: number): string {
  return visible(tokens[index]?.text ?? "");
}

const WHOSE: Record<Status, string> = { only: "", shared: ", in both", a: ", only in A", b: ", only in B" };

export function edgeTitle(edge: ShownEdge, { flow, other }: ShownFlow): string {
  const where = edge.head < 0 ? `layer ${edge.layer}` : `layer ${edge.layer}, head ${edge.head}`;
  const what = other ? `flow A ${figure(edge.a)}, B ${figure(edge.b)}` : `flow ${figure(edge.flow)}`;
  const ends = `${nameOf(flow.tokens, edge.source)} reads ${nameOf(flow.tokens, edge.to)}`;
  return `${where}: ${ends}, ${what}, weight ${figure(edge.weight)}${WHOSE[edge.status]}`;
}

/** What stands at a level of the trace; of two models, the mean. */
export function massAt({ flow, other }: ShownFlow, level: number, token: number): number {
  const mass = flow.nodes[level]?.[token] ?? 0;
  return other ? (mass + (other.nodes[level]?.[token] ?? 0)) / 2 : mass;
}

/** What went past a layer at a token; of two models, the mean. */
export function skippedAt({ flow, other }: ShownFlow, layer: number, token: number): number {
  const mass = flow.residual[layer]?.[token] ?? 0;
  return other ? (mass + (other.residual[layer]?.[token] ?? 0)) / 2 : mass;
}

export function rootName(flow: Flow): string {
  if (flow.token !== null) return nameOf(flow.tokens, flow.token);
  return decisionName(flow);
}

function decisionName(flow: Flow): string {
  if (!flow.target) return "the first token";
  return flow.class_free ? "the decision" : `the decision for ${quoted(flow.target.label)}`;
}

/** What is traced, over a picture. */
export function traceName(flow: Flow): string {
  if (flow.token === null)
    return flow.target && flow.class_free ? "the decision, the same whichever class" : decisionName(flow);
  const word = nameOf(flow.tokens, flow.token);
  return {
    back: `back from ${word}`,
    forward: `forward from ${word}`,
    through: `from ${decisionName(flow)} back to ${word}`,
  }[flow.direction];
}

/** One sentence that says what a picture of this flow shows. */
export function flowLabel(shown: ShownFlow, view: string): string {
  const { flow, edges } = shown;
  const way = { back: "back from", forward: "forward from", through: "to the word" }[flow.direction];
  const head = `${view}: ${edges.length} edges of the flow ${way} ${rootName(flow)}`;
  if (shown.jaccard === null) return `${head}: ${unitInWords(shown)}.`;
  const count = (status: Status) => edges.filter((edge) => edge.status === status).length;
  return `${head} in A or B: ${count("shared")} shared, ${count("a")} only in A, ${count("b")} only in B, Jaccard ${figure(shown.jaccard)}.`;
}

const PLACES: Record<Status, string> = { only: "", shared: "both", a: "A", b: "B" };

/** The edges as rows, the strongest first. */
export function flowTable({ flow, other, edges }: ShownFlow): Table {
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

export function edgesOf({ edges }: ShownFlow): number[] {
  return edges.map((edge) => edge.index);
}

/** The line above a comparison: what A, B and both look like, and how many there are. Names go where there is no room. */
export function legend(shown: ShownFlow, options: FlowOptions, x: number, y: number, most: number): Mark[] {
  if (!shown.other) return [];
  const { theme, names, width } = options;
  const named = ["A", "B"].map((letter, i) =>
    names ? `${letter} (${shorten(names[i] ?? "", 24)})` : letter,
  );
  const isWide = widthOf(named.join(""), 11) + 330 <= width - x;
  const [a, b] = isWide ? named : ["A", "B"];
  if (options.difference) return differenceLegend(theme, most, a ?? "A", b ?? "B", x, y);
  const entries: [Status, string][] = [["shared", "shared"], ["a", `only ${a}`], ["b", `only ${b}`]]; // prettier-ignore
  let left = x;
  return entries.flatMap(([status, name]) => {
    const words = `${name}: ${shown.edges.filter((edge) => edge.status === status).length}`;
    const sample: Path = { ...line(left, y, left + 26, y, ""), ...styleOf(status, theme, 2.5) };
    const label = text(left + 32, y + 4, words, theme);
    left += 32 + widthOf(words, 11) + 14;
    return [sample, label];
  });
}

function differenceLegend(theme: Theme, most: number, a: string, b: string, x: number, y: number): Mark[] {
  const marks: Mark[] = [text(x, y + 4, `more in ${a}  −${figure(most)}`, theme)];
  const left = x + widthOf(`more in ${a}  −${figure(most)}`, 11) + 8;
  for (let i = 0; i < 21; i++) {
    marks.push({
      kind: "rect",
      x: left + i * 5,
      y: y - 4,
      width: 5,
      height: 9,
      fill: changed(theme, (i - 10) / 10),
    });
  }
  marks.push(text(left + 113, y + 4, `+${figure(most)}  more in ${b}`, theme));
  return marks;
}
