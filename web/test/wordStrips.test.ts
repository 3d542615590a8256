import { JSDOM } from "jsdom";
import { describe, expect, it } from "vitest";

import { csv } from "../src/render/csv";
import type { Mark } from "../src/render/scene";
import { type Strip, endsOf, strips } from "../src/render/strip";
import { svg } from "../src/render/svg";
import { contrast, DARK, LIGHT } from "../src/render/theme";
import { scaleOf, shadeOf, tint } from "../src/render/tint";

const UNITS = ["not", "a", "##d", "film", "<b>"].map((text, index) => ({
  text,
  before: index === 0 ? "" : index === 3 ? "\n" : " ",
  segment: index < 4 ? 0 : 1,
}));
const SIGNED: Strip = {
  name: "attcat",
  scores: [-2, 0.5, 1, 0, 0],
  shares: [0.5, 0, 0.25, 0, 0.01],
  scale: scaleOf({ signed: true, word_scores: [-2, 0.5, 1, 0, 0] }),
  target: "positive",
};
const UNSIGNED: Strip = {
  ...SIGNED,
  name: "rollout",
  scores: [0.2, 0.21, 0.2, 0.22, 0.3],
  scale: scaleOf({ signed: false, word_scores: [0.2, 0.21, 0.2, 0.22, 0.3] }),
};

const words = (marks: readonly Mark[]): string[] =>
  marks.flatMap((mark) => (mark.kind === "text" ? [mark.text] : []));

describe("strips", () => {
  it("hold every word once for each method, and a legend for each", () => {
    const scene = strips(UNITS, [SIGNED, UNSIGNED], { width: 800, theme: LIGHT });
    const said = words(scene.marks);
    for (const { text } of UNITS) expect(said.filter((each) => each === text)).toHaveLength(2);
    expect(said).toContain("2, for positive");
    expect(said).toContain("0.3; no sign: may count for positive or against");
    const file = svg(scene, LIGHT, "whence");
    expect(file).not.toMatch(/NaN|undefined/);
    expect(new JSDOM(file, { contentType: "image/svg+xml" }).window.document.querySelector("b")).toBeNull();
  });

  it("begin a line where the text does, where a segment does, and where there is no room", () => {
    const lineOf = (width: number): number[] =>
      strips(UNITS, [SIGNED], { width, theme: LIGHT }).marks.flatMap((mark) =>
        mark.kind === "text" && UNITS.some(({ text }) => text === mark.text) ? [mark.y] : [],
      );
    const [not = 0, a = 0, d = 0, film = 0, b = 0] = lineOf(800);
    expect([a, d]).toEqual([not, not]);
    expect(film).toBeGreaterThan(not);
    expect(b).toBeGreaterThan(film);
    expect(new Set(lineOf(40)).size).toBe(5);
  });

  it("give a table of all scores and of the flow, once where it is one", () => {
    const { table } = strips(UNITS, [SIGNED, UNSIGNED], { width: 800, theme: LIGHT });
    expect(table.columns).toEqual(["place", "segment", "text", "attcat", "rollout", "flow that ends there"]);
    expect(table.rows[2]).toEqual([2, "A", "##d", 1, 0.2, 0.25]);
    expect(csv(table, "whence").split("\r\n")[3 + 1]).toBe('2,A,"##d",1,0.2,0.25');
    const other = strips(UNITS, [SIGNED, { ...UNSIGNED, shares: [0, 0, 0, 0, 1] }], {
      width: 800,
      theme: LIGHT,
    });
    expect(other.table.columns.slice(5)).toEqual([
      "flow that ends there, attcat",
      "flow that ends there, rollout",
    ]);
  });
});

describe("tints", () => {
  it("without a sign reach from the smallest to the largest, in grey", () => {
    const { scale } = UNSIGNED;
    expect([0.2, 0.25, 0.3, 0.1, 9].map((score) => Number(shadeOf(score, scale).toFixed(6)))).toEqual([
      0, 0.5, 1, 0, 1,
    ]);
    expect(endsOf(scale, "x").low).toBe("0.2");
    const channels = tint(1, false, LIGHT).background.slice(1).match(/../g) ?? [];
    const [low = 0, , high = 0] = channels.map((part) => Number.parseInt(part, 16)).sort((a, b) => a - b);
    expect(high - low).toBeLessThan(24); // hardly any colour: neither "for" nor "against"
  });

  const STATED = {
    unit: "logit" as const,
    floor: 0.08,
    start: 0,
    full: 0.08,
    legend: "full colour: 0.08 logits",
    note: "No word reaches 0.08 logits.",
  };

  it("are full where the server says, so that a largest score of 0.005 is nearly white", () => {
    const scale = scaleOf({ signed: true, word_scores: [0.005, -0.001], scale: STATED });
    expect(shadeOf(0.005, scale)).toBeCloseTo(0.0625);
    expect([scale.low, scale.high]).toEqual([-0.08, 0.08]);
    const strip = { ...SIGNED, scores: [0.005, 0, 0, 0, 0], scale };
    const said = words(strips(UNITS, [strip, UNSIGNED], { width: 800, theme: LIGHT }).marks);
    expect(said).toContain("full colour: 0.08 logits");
    expect(said).toContain("No word reaches 0.08 logits.");
  });

  it("without a sign begin where the server says", () => {
    const stated = { ...STATED, unit: "share" as const, start: 0.05, full: 0.07, note: null };
    const scale = scaleOf({ signed: false, word_scores: [0.05, 0.052], scale: stated });
    expect(shadeOf(0.052, scale)).toBeCloseTo(0.1);
  });

  it("of one value have no shade", () => {
    expect(shadeOf(0.2, scaleOf({ signed: false, word_scores: [0.2, 0.2] }))).toBe(0);
    expect(shadeOf(0, scaleOf({ signed: true, word_scores: [] }))).toBe(0);
  });

  it.each([LIGHT, DARK])("can be read: $name", (theme) => {
    for (const signed of [true, false])
      for (let shade = signed ? -1 : 0; shade <= 1; shade += 0.05) {
        const { background, color } = tint(shade, signed, theme);
        expect(contrast(background, color)).toBeGreaterThanOrEqual(4.5);
      }
  });
});
