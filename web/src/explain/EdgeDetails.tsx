/** Table of the visible edges, and the selection described in sentences. */

import type { VisibleEdge, VisibleFlow } from "../flow/visibleFlow";
import { normaliseToUnit, nameUnit } from "../flow/layerShares";
import type { Hit } from "../render/scene";
import { showInvisible } from "../render/text";
import { Table } from "../shell/Table";
import { formatCount, formatPercent, formatPlain } from "../shell/numberFormat";
import type { HeadId } from "../state/state";
import { StaleNote, getPanelClass } from "./StaleNote";

interface Props {
  readonly visible: VisibleFlow;
  readonly selected: Hit | null;
  readonly isStale: boolean; // still of the previous trace
  readonly caption: string;
  readonly onEdge: (index: number) => void;
}

const COLUMNS = ["#", "head", "attends", "to", "flow", "weight"];
const INFLUENCE = "influence of to"; // of the classic definition

/** Show the sentences about the selection, and the edges as a table. */
export function EdgeDetails({ visible, selected, isStale, caption, onEdge }: Props) {
  const { edges, flow } = visible;
  const name = (token: number): string => showInvisible(flow.tokens[token]?.text ?? "");
  const rows = edges.map(({ layer, head: number, source, to, flow: carried, weight }, index) => [
    index + 1,
    number < 0 ? `${layer}.all` : `${layer}.${number}`,
    name(source),
    name(to),
    carried,
    weight,
    ...(flow.influence ? [flow.influence.values[layer]?.[to] ?? 0] : []),
  ]);
  return (
    <section className={getPanelClass("details", isStale)} aria-labelledby="details">
      <h2 id="details">Details</h2>
      <StaleNote isStale={isStale} />
      {edges.length === 0 ? (
        !isStale && <p className="dim">No edge is shown.</p>
      ) : (
        <Table
          caption="Shown edges, the strongest first"
          columns={flow.influence ? [...COLUMNS, INFLUENCE] : COLUMNS}
          rows={rows}
          most={15}
          onRow={onEdge}
          selected={selected?.kind === "edge" ? selected.index : null}
          file={{ name: "edges", caption }}
        />
      )}
    </section>
  );
}

/** Describe the selected edge, node or head in sentences. */
export function describeSelection(
  selected: Hit | null,
  head: HeadId | null,
  visible: VisibleFlow,
): readonly string[] {
  const { flow, edges } = visible;
  const name = (token: number): string => `“${showInvisible(flow.tokens[token]?.text ?? "")}”`;
  const sentences: string[] = [];
  const edge = selected?.kind === "edge" ? edges[selected.index] : undefined;
  if (edge) sentences.push(describeEdge(edge, visible, name));
  if (selected?.kind === "token") {
    const arrived = flow.nodes[selected.level]?.[selected.token] ?? 0;
    const from = edges.filter(
      ({ source, layer }) => source === selected.token && layer + 1 === selected.level,
    ).length;
    const into = edges.filter(({ to, layer }) => to === selected.token && layer === selected.level).length;
    sentences.push(
      `${name(selected.token)} at level ${selected.level}: ${describeMass(arrived, visible, name)}; ` +
        `shown are ${formatCount(into, "edge")} into it and ${formatCount(from, "edge")} out of it.`,
    );
  }
  if (head) {
    const mine = edges.filter((each) => each.layer === head[0] && each.head === head[1]);
    const carried = mine.reduce((sum, each) => sum + each.flow, 0);
    const share = formatPercent(normaliseToUnit(flow, head[0], carried));
    sentences.push(
      `Layer ${head[0]}, head ${head[1]}: ${mine.length} of the shown edges, ${share} of ${nameUnit(flow)}.`,
    );
  }
  return sentences;
}

function describeEdge(
  edge: VisibleEdge,
  { flow, edges }: VisibleFlow,
  name: (token: number) => string,
): string {
  const head = edge.head < 0 ? "all heads" : `head ${edge.head}`;
  const share =
    flow.direction === "forward"
      ? `${formatPercent(edge.flow)} of what stands at ${name(edge.source)} above it comes by this edge`
      : `${formatPercent(edge.flow)} of ${nameUnit(flow)} takes this edge`;
  return (
    `Layer ${edge.layer}, ${head}: ${name(edge.source)} attends to ${name(edge.to)} with weight ${formatPlain(edge.weight)}; ` +
    `${share}, ${formatOrdinal(edge.index + 1)} of ${edges.length} shown.`
  );
}

/** Describe the mass that arrives at a node; forward, its part that comes from the word. */
function describeMass(arrived: number, { flow }: VisibleFlow, name: (token: number) => string): string {
  if (flow.direction === "forward" && flow.token !== null)
    return `${formatPercent(arrived)} of what stands there comes from ${name(flow.token)}`;
  return `${formatPercent(arrived)} of ${nameUnit(flow)} arrives there`;
}

/** Format a number as 1st, 2nd, 3rd. */
export function formatOrdinal(number: number): string {
  const tens = number % 100;
  const ending = tens > 10 && tens < 14 ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th");
  return `${number}${ending}`;
}
