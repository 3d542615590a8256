/** Idle tokens of a picture: those without visible flow, folded into gaps. */

import type { VisibleFlow } from "./visibleFlow";

/** Column of a picture: a token, or a gap for several idle ones. */
export type Column =
  | { readonly kind: "token"; readonly token: number }
  | { readonly kind: "gap"; readonly from: number; readonly count: number };

/** Find the tokens that must be drawn: ends of edges, roots of the trace, and `keep`. */
export function findActiveTokens({ flow, edges }: VisibleFlow, keep: readonly number[] = []): Set<number> {
  const result = new Set(keep.filter((token) => token >= 0 && token < flow.tokens.length));
  for (const { source, to } of edges) result.add(source).add(to);
  if (flow.token !== null) result.add(flow.token);
  for (const root of findRoots(flow.nodes)) result.add(root);
  return result;
}

/** Find the roots of the trace at the deepest level; none where it starts from more than four tokens. */
function findRoots(nodes: readonly (readonly number[])[]): number[] {
  const top = nodes.at(-1) ?? [];
  const result = top.flatMap((mass, token) => (mass > 0 ? [token] : []));
  return result.length <= 4 ? result : [];
}

/** Fold idle tokens into gaps. A single idle token is drawn: a gap would be as wide. */
export function foldIdleTokens(tokens: number, active: ReadonlySet<number>): Column[] {
  const columns: Column[] = [];
  let from = 0;
  for (let token = 0; token <= tokens; token++) {
    if (token < tokens && !active.has(token)) continue;
    const count = token - from;
    if (count === 1) columns.push({ kind: "token", token: from });
    else if (count > 1) columns.push({ kind: "gap", from, count });
    if (token < tokens) columns.push({ kind: "token", token });
    from = token + 1;
  }
  return columns;
}
