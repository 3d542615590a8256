/** Tests of the flow views: snapshots, text contrast, edges found by pointer, comparisons, hostile tokens. */

import { describe, expect, it } from "vitest";
import { selectVisible, type VisibleFlow } from "../src/flow/visibleFlow";
import { formatCaption } from "../src/render/caption";
import type { FlowOptions } from "../src/render/flowmarks";
import { MOST_TOKENS, drawRings, explainNoRings } from "../src/render/rings";
import { type Mark, type Scene, getTitle } from "../src/render/scene";
import { renderSvg } from "../src/render/svg";
import { measureWidth } from "../src/render/text";
import { computeContrast, DARK, LIGHT } from "../src/render/theme";
import { VIEWS } from "../src/render/views";
import { readFixture, HOSTILE, makeLargeFlow, makeFlow } from "./flows";

const [A, B, WORDS] = [readFixture("attention"), readFixture("norm"), readFixture("words")];
const NAMES = Object.keys(VIEWS) as (keyof typeof VIEWS)[];
const CAPTION = formatCaption({
  model: "reviews",
  revision: "1",
  weight: "attention",
  coverage: 0.5,
  unit: "3–31% of the unit that set out in each layer, 50% goes past it",
  date: "2026-11-15",
});

const hostile = makeFlow({
  tokens: HOSTILE,
  edges: HOSTILE.map((_, i) => [i % 2, 0, i % 2 ? 0 : i, i, 0.1 + i / 100] as const),
});

const CASES: readonly (readonly [string, VisibleFlow, Partial<FlowOptions>])[] = [
  ["one flow", selectVisible(WORDS, 0.5), {}],
  ["all tokens", selectVisible(A, 0.9), { specials: "show" }],
  [
    "sets of two",
    selectVisible(A, 0.5, B),
    { names: ["bert-base-uncased", "a-model-with-a-very-long-name-indeed"] },
  ],
  ["difference of two", selectVisible(A, 0.5, B), { difference: true, names: ["a", "b"] }],
  ["nothing", selectVisible(A, 0), {}],
  ["hostile tokens", selectVisible(hostile, 1), {}],
];

/** The box of a text, as far as it can be known without a browser. */
function boxOf(
  mark: Extract<Mark, { kind: "text" }>,
): [left: number, top: number, right: number, bottom: number] {
  const width = measureWidth(mark.text, mark.size);
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

  it.each(CASES)("draws every visible edge: %s", (_, flow, options) => {
    const scene = view(flow, { width: 900, theme: LIGHT, ...options });
    expect(scene.edges).toEqual(flow.edges.map((edge) => edge.index));
    expect(scene.table.rows).toHaveLength(flow.edges.length);
    expect(scene.table.rows.every((row) => row.length === scene.table.columns.length)).toBe(true);
  });

  it.each(CASES)("keeps every text inside at any width: %s", (_, flow, options) => {
    for (const width of [420, 720, 1300]) {
      const scene = view(flow, { width, theme: LIGHT, ...options });
      for (const mark of texts(scene)) {
        const [left, top, right, bottom] = boxOf(mark);
        expect.soft([mark.text, left >= -1, top >= -1, right <= scene.width + 1, bottom <= scene.height + 1]).toEqual([mark.text, true, true, true, true]); // prettier-ignore
      }
    }
  });

  it.each(CASES)("positions are finite and deterministic: %s", (_, flow, options) => {
    for (const theme of [LIGHT, DARK]) {
      const file = renderSvg(view(flow, { width: 800, theme, ...options }), theme, CAPTION);
      expect(file).not.toMatch(/NaN|Infinity|undefined/);
      expect(renderSvg(view(flow, { width: 800, theme, ...options }), theme, CAPTION)).toBe(file);
    }
  });

  it("text contrast on paper is sufficient", () => {
    for (const theme of [LIGHT, DARK]) {
      const scene = view(selectVisible(A, 0.5, B), { width: 900, theme });
      for (const mark of texts(scene))
        expect(computeContrast(mark.fill, theme.paper)).toBeGreaterThanOrEqual(4.5);
    }
  });

  it("equals its snapshot", async () => {
    const file = renderSvg(view(selectVisible(WORDS, 0.5), { width: 720, theme: LIGHT }), LIGHT, CAPTION);
    await expect(file).toMatchFileSnapshot(`__snapshots__/${name}.svg`);
  });

  it("comparison: equals its snapshot", async () => {
    const file = renderSvg(
      view(selectVisible(A, 0.3, B), { width: 720, theme: DARK, names: ["base", "tuned"] }),
      DARK,
      CAPTION,
    );
    await expect(file).toMatchFileSnapshot(`__snapshots__/${name}-compared.svg`);
  });
});

it("drawLadder and drawRings: one line per edge, each found by pointer", () => {
  for (const name of ["ladder", "rings"] as const) {
    const flow = selectVisible(A, 0.5, B);
    const scene = VIEWS[name](flow, { width: 900, theme: LIGHT });
    const result = scene.marks.flatMap((mark) => (mark.hit?.kind === "edge" ? [mark.hit.index] : []));
    expect(result.sort((x, y) => x - y)).toEqual(flow.edges.map((edge) => edge.index));
  }
});

it("comparison: colour and dash identify the model", () => {
  const flow = selectVisible(A, 0.5, B);
  const scene = VIEWS.ladder(flow, { width: 900, theme: LIGHT });
  for (const mark of scene.marks) {
    if (mark.kind !== "path" || mark.hit?.kind !== "edge") continue;
    const status = flow.edges[mark.hit.index]?.status ?? "only";
    expect(mark.stroke).toBe({ only: "", shared: LIGHT.shared, a: LIGHT.a, b: LIGHT.b }[status]);
    expect(mark.dash === undefined).toBe(status === "shared");
  }
});

it("drawLadder, heads between two tokens: total width is their sum", () => {
  const flow = selectVisible(WORDS, 0.8);
  const scene = VIEWS.ladder(flow, { width: 1200, theme: LIGHT });
  const widths = scene.marks.flatMap((mark) =>
    mark.kind === "path" && mark.hit?.kind === "edge"
      ? [[flow.edges[mark.hit.index]?.flow ?? 0, mark.strokeWidth ?? 0] as const]
      : [],
  );
  const scale = (widths[0]?.[1] ?? 0) / (widths[0]?.[0] ?? 1);
  for (const [carried, width] of widths) expect(width).toBeCloseTo(Math.max(0.6, carried * scale), 9);
});

it("drawSpecialGutter: bar lengths are the special tokens' shares", () => {
  const scene = VIEWS.ladder(selectVisible(WORDS, 0.5), { width: 900, theme: LIGHT });
  const bars = scene.marks.flatMap((mark) =>
    mark.kind === "rect" && getTitle(mark)?.includes("special tokens") ? [mark] : [],
  );
  WORDS.special_share.forEach((share, layer) => {
    const [whole, part] = bars.filter((bar) => getTitle(bar)?.startsWith(`layer ${layer}:`));
    expect((part?.width ?? 0) / (whole?.width ?? 1)).toBeCloseTo(
      (share ?? 0) * (1 - (WORDS.residual_share[layer] ?? 0)),
      6,
    );
  });
  const hidden = VIEWS.ladder(selectVisible(WORDS, 0.5), { width: 900, theme: LIGHT, specials: "hide" });
  expect(hidden.marks.some((mark) => getTitle(mark)?.includes("special tokens"))).toBe(false);
});

it("explainNoRings: refuses one token more than the limit", () => {
  expect(explainNoRings(makeLargeFlow(MOST_TOKENS, 2, 2, 5))).toBeNull();
  const flow = makeLargeFlow(MOST_TOKENS + 1, 2, 2, 5);
  expect(explainNoRings(flow)).toContain("41");
  expect(drawRings(selectVisible(flow, 1), { width: 600, theme: LIGHT }).label).toBe(explainNoRings(flow));
});

it("drawHeadGlyphs: split between two models, outlined along the trace", () => {
  const flow = selectVisible(A, 0.5, B);
  const cells = drawRings(flow, { width: 800, theme: LIGHT }).marks.filter(
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

it("flow without heads: all views draw it", () => {
  const flow = { ...makeFlow({ tokens: ["[CLS]", "x"], edges: [[1, -1, 0, 1, 0.6], [0, -1, 1, 1, 0.4]] }), per_head: false }; // prettier-ignore
  for (const name of NAMES) {
    const scene = VIEWS[name](selectVisible(flow, 1), { width: 600, theme: LIGHT });
    expect(scene.edges).toEqual([0, 1]);
    expect(scene.table.rows[0]?.[1]).toBe("all");
  }
});
