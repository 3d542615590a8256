/** Head glyphs of the rings: one cell for each token, layer and head, filled by the flow through the head. */

import type { Flow } from "../api/types";
import type { VisibleFlow } from "../flow/visibleFlow";
import { nameToken, type FlowOptions } from "./flowmarks";
import { sector } from "./marks";
import type { RingLayout } from "./rings";
import type { Mark } from "./scene";
import { formatSignificant } from "./text";
import { mixColours } from "./theme";

type Strength = Map<string, number>;

/** Draw the glyphs of all tokens. */
export function drawHeadGlyphs(visible: VisibleFlow, { theme }: FlowOptions, place: RingLayout): Mark[] {
  const { flow, other } = visible;
  const heads = flow.per_head ? flow.heads : 1;
  const { columns, rows } = arrangeHeads(heads, place);
  const traced = {
    a: new Set(visible.edges.filter((edge) => edge.status !== "b").map(buildCellKey)),
    b: new Set(
      visible.edges.filter((edge) => edge.status === "shared" || edge.status === "b").map(buildCellKey),
    ),
  };
  const models = other
    ? [
        {
          name: " in A",
          strength: sumStrengths(flow),
          fill: (share: number) => mixColours(theme.paper, theme.a, share),
          traced: traced.a,
        },
        {
          name: " in B",
          strength: sumStrengths(other),
          fill: (share: number) => mixColours(theme.paper, theme.b, share),
          traced: traced.b,
        },
      ]
    : [{ name: "", strength: sumStrengths(flow), fill: theme.sequential, traced: traced.a }];
  const most = Math.max(...models.flatMap(({ strength }) => [...strength.values()]), 1e-12);

  const cells: Mark[] = [];
  const outlined: Mark[] = [];
  for (let layer = flow.layers - 1; layer >= 0; layer--) {
    const [low, high] = [place.band(layer) + 2, place.outer(layer) - 1];
    const step = (high - low) / rows;
    for (let token = 0; token < flow.tokens.length; token++) {
      const [left, wide] = [place.angle(token) - place.turn * 0.44, (place.turn * 0.88) / columns];
      for (let i = 0; i < heads; i++) {
        const head = flow.per_head ? i : -1;
        const from = left + (i % columns) * wide;
        const inner = low + Math.floor(i / columns) * step;
        models.forEach((model, half) => {
          const value = model.strength.get(buildCellKey({ layer, head, to: token })) ?? 0;
          const isTraced = model.traced.has(buildCellKey({ layer, head, to: token }));
          const pad = wide * 0.06;
          const part = (wide - 2 * pad) / models.length;
          const start = from + pad + half * part;
          const name = head < 0 ? `layer ${layer}` : `layer ${layer}, head ${head}`;
          (isTraced ? outlined : cells).push({
            kind: "path",
            commands: sector(
              place.cx,
              place.cy,
              inner + step * 0.06,
              inner + step * 0.94,
              start,
              start + part,
            ),
            fill: model.fill(Math.sqrt(value / most)),
            stroke: isTraced ? theme.ink : theme.rule,
            strokeWidth: isTraced ? 1.25 : 0.4,
            hit: { kind: "head", layer, head: Math.max(0, head) },
            title: `${name}: ${formatSignificant(value)} flows to ${nameToken(flow.tokens, token)}${model.name}${isTraced ? ", in the trace" : ""}`,
          });
        });
      }
    }
  }
  return [...cells, ...outlined]; // outlines lie on top of their neighbours
}

/** Arrange the heads in the same grid in all rings, as square as the middle ring allows. */
function arrangeHeads(heads: number, place: RingLayout): { columns: number; rows: number } {
  const middle = (place.outer(0) + place.pitch) / 2;
  const aspect = (middle * place.turn) / (place.pitch * 0.42);
  const columns = Math.max(1, Math.min(heads, Math.round(Math.sqrt(heads * aspect))));
  return { columns: Math.ceil(heads / Math.ceil(heads / columns)), rows: Math.ceil(heads / columns) };
}

function sumStrengths({ edges }: Flow): Strength {
  const strengths: Strength = new Map();
  edges.flow.forEach((flow, i) => {
    const name = buildCellKey({
      layer: edges.layer[i] ?? 0,
      head: edges.head[i] ?? -1,
      to: edges.to[i] ?? 0,
    });
    strengths.set(name, (strengths.get(name) ?? 0) + flow);
  });
  return strengths;
}

function buildCellKey({ layer, head, to }: { layer: number; head: number; to: number }): string {
  return `${layer} ${head} ${to}`;
}
