import { describe, expect, it } from "vitest";
import { shown, type ShownFlow } from "../src/flow/shown";
import { caption } from "../src/render/caption";
import type { FlowOptions } from "../src/render/flowmarks";
import { MOST_TOKENS, rings, whyNoRings } from "../src/render/rings";
import { type Mark, type Scene, titleOf } from "../src/render/scene";
import { svg } from "../src/render/svg";
import { widthOf } from "../src/render/text";
import { contrast, DARK, LIGHT } from "../src/render/theme";
import { VIEWS } from "../src/render/views";
import { fixture, HOSTILE, large, made } from "./flows";

const [A, B, WORDS] = [fixture("attention"), fixture("norm"), fixture("words")];
const NAMES = Object.keys(VIEWS) as (keyof typeof VIEWS)[];
const CAPTION = caption({
  model: "reviews",
  revision: "1",
  weight: "attention",
  coverage: 0.5,
  unit: "3–31% of the unit that set out in each layer, 50% goes past it",
  date: "2026-11-15",
});

const hostile = made({
  tokens: HOSTILE,
  edges: HOSTILE.map((_, i) => [i % 2, 0, i % 2 ? 0 : i, i, 0.1 + i / 100] as const),
});

const CASES: readonly (readonly [string, ShownFlow, Partial<FlowOptions>])[] = [
  ["one flow", shown(WORDS, 0.5), {}],
  ["all tokens", shown(A, 0.9), { specials: "show" }],
  ["sets of two", shown(A, 0.5, B), { names: ["bert-base-uncased", "a-model-with-a-very-long-name-indeed"] }],
  ["difference of two", shown(A, 0.5, B), { difference: true, names: ["a", "b"] }],
  ["nothing", shown(A, 0), {}],
  ["hostile tokens", shown(hostile, 1), {}],
];

/** The box of a text, as far as it can be known without a browser. */
function boxOf(
  mark: Extract<Mark, { kind: "text" }>,
): [left: number, top: number, right: number, bottom: number] {
  const width = widthOf(mark.text, mark.size);
  const left = { start: 0, middle: -width / 2, end: -width }[mark.anchor ?? "start"];
  const angle = ((mark.rotate ?? 0) * Math.PI) / 180;
  const corners = [[left, -mark.size * 0.8], [left + width, -mark.size * 0.8], [left, 2], [left + width, 2]] as const; // prettier-ignore
  const xs = corners.map(([x, y]) => mark.x + x * Math.cos(angle) - y * Math.sin(angle));
  const ys = corners.map(([x, y]) => mark.y + x * Math.sin(angle) + y * Math.cos(angle));
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

function texts(scene: Scene): Extract<Mark, { kind: "text" }>[] {
  return scene.marks.filter((mark) => mark.kind === "text");
}

describe.each(NAMES)("%s", (name) => {
  const view = VIEWS[name];

  it.each(CASES)("draws the edges that are shown, all of them: %s", (_, flow, options) => {
    const scene = view(flow, { width: 900, theme: LIGHT, ...options });
    expect(scene.edges).toEqual(flow.edges.map((edge) => edge.index));
    expect(scene.table.rows).toHaveLength(flow.edges.length);
    expect(scene.table.rows.every((row) => row.length === scene.table.columns.length)).toBe(true);
  });

  it.each(CASES)("keeps every text inside, at any width: %s", (_, flow, options) => {
    for (const width of [420, 720, 1300]) {
      const scene = view(flow, { width, theme: LIGHT, ...options });
      for (const mark of texts(scene)) {
        const [left, top, right, bottom] = boxOf(mark);
        expect.soft([mark.text, left >= -1, top >= -1, right <= scene.width + 1, bottom <= scene.height + 1]).toEqual([mark.text, true, true, true, true]); // prettier-ignore
      }
    }
  });

  it.each(CASES)("has only numbers for places, and the same ones again: %s", (_, flow, options) => {
    for (const theme of [LIGHT, DARK]) {
      const file = svg(view(flow, { width: 800, theme, ...options }), theme, CAPTION);
      expect(file).not.toMatch(/NaN|Infinity|undefined/);
      expect(svg(view(flow, { width: 800, theme, ...options }), theme, CAPTION)).toBe(file);
    }
  });

  it("writes text in ink that can be read on the paper", () => {
    for (const theme of [LIGHT, DARK]) {
      const scene = view(shown(A, 0.5, B), { width: 900, theme });
      for (const mark of texts(scene)) expect(contrast(mark.fill, theme.paper)).toBeGreaterThanOrEqual(4.5);
    }
  });

  it("looks as it did", async () => {
    const file = svg(view(shown(WORDS, 0.5), { width: 720, theme: LIGHT }), LIGHT, CAPTION);
    await expect(file).toMatchFileSnapshot(`__snapshots__/${name}.svg`);
  });

  it("looks as it did in a comparison", async () => {
    const file = svg(
      view(shown(A, 0.3, B), { width: 720, theme: DARK, names: ["base", "tuned"] }),
      DARK,
      CAPTION,
    );
    await expect(file).toMatchFileSnapshot(`__snapshots__/${name}-compared.svg`);
  });
});

it("draws one line per edge in the ladder and the rings, and they can all be found", () => {
  for (const name of ["ladder", "rings"] as const) {
    const flow = shown(A, 0.5, B);
    const scene = VIEWS[name](flow, { width: 900, theme: LIGHT });
    const found = scene.marks.flatMap((mark) => (mark.hit?.kind === "edge" ? [mark.hit.index] : []));
    expect(found.sort((x, y) => x - y)).toEqual(flow.edges.map((edge) => edge.index));
  }
});

it("says whose an edge is by colour and by pattern", () => {
  const flow = shown(A, 0.5, B);
  const scene = VIEWS.ladder(flow, { width: 900, theme: LIGHT });
  for (const mark of scene.marks) {
    if (mark.kind !== "path" || mark.hit?.kind !== "edge") continue;
    const status = flow.edges[mark.hit.index]?.status ?? "only";
    expect(mark.stroke).toBe({ only: "", shared: LIGHT.shared, a: LIGHT.a, b: LIGHT.b }[status]);
    expect(mark.dash === undefined).toBe(status === "shared");
  }
});

it("gives a strand as much width as its heads carry together", () => {
  const flow = shown(WORDS, 0.8);
  const scene = VIEWS.ladder(flow, { width: 1200, theme: LIGHT });
  const widths = scene.marks.flatMap((mark) =>
    mark.kind === "path" && mark.hit?.kind === "edge"
      ? [[flow.edges[mark.hit.index]?.flow ?? 0, mark.strokeWidth ?? 0] as const]
      : [],
  );
  const scale = (widths[0]?.[1] ?? 0) / (widths[0]?.[0] ?? 1);
  for (const [carried, width] of widths) expect(width).toBeCloseTo(Math.max(0.6, carried * scale), 9);
});

it("shows the special tokens' share as bars of that length", () => {
  const scene = VIEWS.ladder(shown(WORDS, 0.5), { width: 900, theme: LIGHT });
  const bars = scene.marks.flatMap((mark) =>
    mark.kind === "rect" && titleOf(mark)?.includes("special tokens") ? [mark] : [],
  );
  WORDS.special_share.forEach((share, layer) => {
    const [whole, part] = bars.filter((bar) => titleOf(bar)?.startsWith(`layer ${layer}:`));
    expect((part?.width ?? 0) / (whole?.width ?? 1)).toBeCloseTo(
      (share ?? 0) * (1 - (WORDS.residual_share[layer] ?? 0)),
      6,
    );
  });
  const hidden = VIEWS.ladder(shown(WORDS, 0.5), { width: 900, theme: LIGHT, specials: "hide" });
  expect(hidden.marks.some((mark) => titleOf(mark)?.includes("special tokens"))).toBe(false);
});

it("has rings for so many tokens and not for one more", () => {
  expect(whyNoRings(large(MOST_TOKENS, 2, 2, 5))).toBeNull();
  const flow = large(MOST_TOKENS + 1, 2, 2, 5);
  expect(whyNoRings(flow)).toContain("41");
  expect(rings(shown(flow, 1), { width: 600, theme: LIGHT }).label).toBe(whyNoRings(flow));
});

it("splits the rings' glyphs between two models, and outlines those of the trace", () => {
  const flow = shown(A, 0.5, B);
  const cells = rings(flow, { width: 800, theme: LIGHT }).marks.filter(
    (mark) => mark.kind === "path" && mark.hit?.kind === "head",
  );
  expect(cells).toHaveLength(A.layers * A.heads * A.tokens.length * 2);
  const outlined = cells.filter((mark) => mark.kind === "path" && mark.stroke === LIGHT.ink);
  const ends = (side: "a" | "b") =>
    new Set(
      flow.edges
        .filter((edge) => edge.status === "shared" || edge.status === side)
        .map(({ layer, head, to }) => `${layer} ${head} ${to}`),
    );
  expect(outlined).toHaveLength(ends("a").size + ends("b").size);
});

it("takes a flow of all heads together", () => {
  const flow = { ...made({ tokens: ["[CLS]", "x"], edges: [[1, -1, 0, 1, 0.6], [0, -1, 1, 1, 0.4]] }), per_head: false }; // prettier-ignore
  for (const name of NAMES) {
    const scene = VIEWS[name](shown(flow, 1), { width: 600, theme: LIGHT });
    expect(scene.edges).toEqual([0, 1]);
    expect(scene.table.rows[0]?.[1]).toBe("all");
  }
});
