/** Idle tokens are folded away: what takes no part gets one narrow gap that says how many it stands for. */

import type { ShownFlow } from "./shown";

export type Column =
  | { readonly kind: "token"; readonly token: number }
  | { readonly kind: "gap"; readonly from: number; readonly count: number };

/** The tokens that a picture of this flow must show: ends of edges, the root, and whatever is to be kept. */
export function active({ flow, edges }: ShownFlow, keep: readonly number[] = []): Set<number> {
  const found = new Set(keep.filter((token) => token >= 0 && token < flow.tokens.length));
  for (const { source, to } of edges) found.add(source).add(to);
  if (flow.token !== null) found.add(flow.token);
  for (const root of roots(flow.nodes)) found.add(root);
  return found;
}

/** Where the trace stands at the deepest level, unless it stands everywhere. */
function roots(nodes: readonly (readonly number[])[]): number[] {
  const top = nodes.at(-1) ?? [];
  const found = top.flatMap((mass, token) => (mass > 0 ? [token] : []));
  return found.length <= 4 ? found : [];
}

/** Columns from left to right. A single idle token is shown: a gap would take as much room. */
export function fold(tokens: number, shown: ReadonlySet<number>): Column[] {
  const columns: Column[] = [];
  let from = 0;
  for (let token = 0; token <= tokens; token++) {
    if (token < tokens && !shown.has(token)) continue;
    const count = token - from;
    if (count === 1) columns.push({ kind: "token", token: from });
    else if (count > 1) columns.push({ kind: "gap", from, count });
    if (token < tokens) columns.push({ kind: "token", token });
    from = token + 1;
  }
  return columns;
}
