/** Every shown edge in a table, and what is selected in sentences. */

import type { ShownEdge, ShownFlow } from "../flow/shown";
import { ofUnit, unitName } from "../flow/unit";
import type { Hit } from "../render/scene";
import { visible } from "../render/text";
import { Table } from "../shell/Table";
import { count, percent, plain } from "../shell/figures";
import type { HeadId } from "../state/state";
import { Stale, panelClass } from "./Stale";

interface Props {
  readonly shown: ShownFlow;
  readonly selected: Hit | null;
  readonly isOld: boolean; // of the trace before
  readonly caption: string;
  readonly onEdge: (index: number) => void;
}

const COLUMNS = ["#", "head", "attends", "to", "flow", "weight"];
const INFLUENCE = "influence of to"; // of the classic definition

export function Details({ shown, selected, isOld, caption, onEdge }: Props) {
  const { edges, flow } = shown;
  const name = (token: number): string => visible(flow.tokens[token]?.text ?? "");
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
    <section className={panelClass("details", isOld)} aria-labelledby="details">
      <h2 id="details">Details</h2>
      <Stale isOld={isOld} />
      {edges.length === 0 ? (
        !isOld && <p className="dim">No edge is shown.</p>
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

/** The selection in sentences. */
export function wordsOf(selected: Hit | null, head: HeadId | null, shown: ShownFlow): readonly string[] {
  const { flow, edges } = shown;
  const name = (token: number): string => `“${visible(flow.tokens[token]?.text ?? "")}”`;
  const sentences: string[] = [];
  const edge = selected?.kind === "edge" ? edges[selected.index] : undefined;
  if (edge) sentences.push(edgeInWords(edge, shown, name));
  if (selected?.kind === "token") {
    const arrived = flow.nodes[selected.level]?.[selected.token] ?? 0;
    const from = edges.filter(
      ({ source, layer }) => source === selected.token && layer + 1 === selected.level,
    ).length;
    const into = edges.filter(({ to, layer }) => to === selected.token && layer === selected.level).length;
    sentences.push(
      `${name(selected.token)} at level ${selected.level}: ${arrivedInWords(arrived, shown, name)}; ` +
        `shown are ${count(into, "edge")} into it and ${count(from, "edge")} out of it.`,
    );
  }
  if (head) {
    const mine = edges.filter((each) => each.layer === head[0] && each.head === head[1]);
    const carried = mine.reduce((sum, each) => sum + each.flow, 0);
    const share = percent(ofUnit(flow, head[0], carried));
    sentences.push(
      `Layer ${head[0]}, head ${head[1]}: ${mine.length} of the shown edges, ${share} of ${unitName(flow)}.`,
    );
  }
  return sentences;
}

function edgeInWords(edge: ShownEdge, { flow, edges }: ShownFlow, name: (token: number) => string): string {
  const head = edge.head < 0 ? "all heads" : `head ${edge.head}`;
  const share =
    flow.direction === "forward"
      ? `${percent(edge.flow)} of what stands at ${name(edge.source)} above it comes by this edge`
      : `${percent(edge.flow)} of ${unitName(flow)} takes this edge`;
  return (
    `Layer ${edge.layer}, ${head}: ${name(edge.source)} attends to ${name(edge.to)} with weight ${plain(edge.weight)}; ` +
    `${share}, ${ordinal(edge.index + 1)} of ${edges.length} shown.`
  );
}

/** What arrived at a place; forward, what of it comes from the word. */
function arrivedInWords(arrived: number, { flow }: ShownFlow, name: (token: number) => string): string {
  if (flow.direction === "forward" && flow.token !== null)
    return `${percent(arrived)} of what stands there comes from ${name(flow.token)}`;
  return `${percent(arrived)} of ${unitName(flow)} arrives there`;
}

export function ordinal(number: number): string {
  const tens = number % 100;
  const ending = tens > 10 && tens < 14 ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th");
  return `${number}${ending}`;
}
