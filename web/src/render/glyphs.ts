/** Head glyphs of the rings: one cell per token, layer and head, filled by what flows to the token through the head. */

import type { Flow } from "../api/types";
import type { ShownFlow } from "../flow/shown";
import { nameOf, type FlowOptions } from "./flowmarks";
import { sector } from "./marks";
import type { Rings } from "./rings";
import type { Mark } from "./scene";
import { figure } from "./text";
import { mix } from "./theme";

type Strength = Map<string, number>;

export function glyphs(shown: ShownFlow, { theme }: FlowOptions, place: Rings): Mark[] {
  const { flow, other } = shown;
  const heads = flow.per_head ? flow.heads : 1;
  const { columns, rows } = arranged(heads, place);
  const traced = {
    a: new Set(shown.edges.filter((edge) => edge.status !== "b").map(key)),
    b: new Set(shown.edges.filter((edge) => edge.status === "shared" || edge.status === "b").map(key)),
  };
  const models = other
    ? [
        {
          name: " in A",
          strength: strengths(flow),
          fill: (share: number) => mix(theme.paper, theme.a, share),
          traced: traced.a,
        },
        {
          name: " in B",
          strength: strengths(other),
          fill: (share: number) => mix(theme.paper, theme.b, share),
          traced: traced.b,
        },
      ]
    : [{ name: "", strength: strengths(flow), fill: theme.sequential, traced: traced.a }];
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
          const value = model.strength.get(key({ layer, head, to: token })) ?? 0;
          const isTraced = model.traced.has(key({ layer, head, to: token }));
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
            title: `${name}: ${figure(value)} flows to ${nameOf(flow.tokens, token)}${model.name}${isTraced ? ", in the trace" : ""}`,
          });
        });
      }
    }
  }
  return [...cells, ...outlined]; // outlines lie on top of their neighbours
}

/** The same places in all rings, so that a head is found again; as square as the middle ring allows. */
function arranged(heads: number, place: Rings): { columns: number; rows: number } {
  const middle = (place.outer(0) + place.pitch) / 2;
  const aspect = (middle * place.turn) / (place.pitch * 0.42);
  const columns = Math.max(1, Math.min(heads, Math.round(Math.sqrt(heads * aspect))));
  return { columns: Math.ceil(heads / Math.ceil(heads / columns)), rows: Math.ceil(heads / columns) };
}

function strengths({ edges }: Flow): Strength {
  const found: Strength = new Map();
  edges.flow.forEach((flow, i) => {
    const name = key({ layer: edges.layer[i] ?? 0, head: edges.head[i] ?? -1, to: edges.to[i] ?? 0 });
    found.set(name, (found.get(name) ?? 0) + flow);
  });
  return found;
}

function key({ layer, head, to }: { layer: number; head: number; to: number }): string {
  return `${layer} ${head} ${to}`;
}
