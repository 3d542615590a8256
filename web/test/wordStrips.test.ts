/** Tests of the exported text strips (words, line breaks, table), and of their colour scales. */

import { JSDOM } from "jsdom";
import { describe, expect, it } from "vitest";

import { formatCsv } from "../src/render/csv";
import type { Mark } from "../src/render/scene";
import { type WordStrip, describeScaleEnds, drawStrips } from "../src/render/wordStrips";
import { renderSvg } from "../src/render/svg";
import { computeContrast, DARK, LIGHT } from "../src/render/theme";
import { buildScale, computeShade, tintShade } from "../src/render/tint";

const UNITS = ["not", "a", "##d", "film", "<b>"].map((text, index) => ({
  text,
  before: index === 0 ? "" : index === 3 ? "\n" : " ",
  segment: index < 4 ? 0 : 1,
}));
const SIGNED: WordStrip = {
  name: "attcat",
  scores: [-2, 0.5, 1, 0, 0],
  shares: [0.5, 0, 0.25, 0, 0.01],
  scale: buildScale({ signed: true, word_scores: [-2, 0.5, 1, 0, 0] }),
  target: "positive",
};
const UNSIGNED: WordStrip = {
  ...SIGNED,
  name: "rollout",
  scores: [0.2, 0.21, 0.2, 0.22, 0.3],
  scale: buildScale({ signed: false, word_scores: [0.2, 0.21, 0.2, 0.22, 0.3] }),
};

const words = (marks: readonly Mark[]): string[] =>
  marks.flatMap((mark) => (mark.kind === "text" ? [mark.text] : []));

describe("drawStrips", () => {
  it("each method: every word once, and a legend", () => {
    const scene = drawStrips(UNITS, [SIGNED, UNSIGNED], { width: 800, theme: LIGHT });
    const texts = words(scene.marks);
    for (const { text } of UNITS) expect(texts.filter((each) => each === text)).toHaveLength(2);
    expect(texts).toContain("2, for positive");
    expect(texts).toContain("0.3; no sign: may count for positive or against");
    const file = renderSvg(scene, LIGHT, "whence");
    expect(file).not.toMatch(/NaN|undefined/);
    expect(new JSDOM(file, { contentType: "image/svg+xml" }).window.document.querySelector("b")).toBeNull();
  });

  it("new line: where the text or a segment breaks, or the width ends", () => {
    const lineOf = (width: number): number[] =>
      drawStrips(UNITS, [SIGNED], { width, theme: LIGHT }).marks.flatMap((mark) =>
        mark.kind === "text" && UNITS.some(({ text }) => text === mark.text) ? [mark.y] : [],
      );
    const [not = 0, a = 0, d = 0, film = 0, b = 0] = lineOf(800);
    expect([a, d]).toEqual([not, not]);
    expect(film).toBeGreaterThan(not);
    expect(b).toBeGreaterThan(film);
    expect(new Set(lineOf(40)).size).toBe(5);
  });

  it("table: all scores, and the flow once where it is shared", () => {
    const { table } = drawStrips(UNITS, [SIGNED, UNSIGNED], { width: 800, theme: LIGHT });
    expect(table.columns).toEqual(["place", "segment", "text", "attcat", "rollout", "flow that ends there"]);
    expect(table.rows[2]).toEqual([2, "A", "##d", 1, 0.2, 0.25]);
    expect(formatCsv(table, "whence").split("\r\n")[3 + 1]).toBe('2,A,"##d",1,0.2,0.25');
    const other = drawStrips(UNITS, [SIGNED, { ...UNSIGNED, shares: [0, 0, 0, 0, 1] }], {
      width: 800,
      theme: LIGHT,
    });
    expect(other.table.columns.slice(5)).toEqual([
      "flow that ends there, attcat",
      "flow that ends there, rollout",
    ]);
  });
});

describe("buildScale and tintShade", () => {
  it("unsigned: from the smallest to the largest score, in grey", () => {
    const { scale } = UNSIGNED;
    expect([0.2, 0.25, 0.3, 0.1, 9].map((score) => Number(computeShade(score, scale).toFixed(6)))).toEqual([
      0, 0.5, 1, 0, 1,
    ]);
    expect(describeScaleEnds(scale, "x").low).toBe("0.2");
    const channels = tintShade(1, false, LIGHT).background.slice(1).match(/../g) ?? [];
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

  it("server's scale: a largest score of 0.005 is nearly white", () => {
    const scale = buildScale({ signed: true, word_scores: [0.005, -0.001], scale: STATED });
    expect(computeShade(0.005, scale)).toBeCloseTo(0.0625);
    expect([scale.low, scale.high]).toEqual([-0.08, 0.08]);
    const strip = { ...SIGNED, scores: [0.005, 0, 0, 0, 0], scale };
    const texts = words(drawStrips(UNITS, [strip, UNSIGNED], { width: 800, theme: LIGHT }).marks);
    expect(texts).toContain("full colour: 0.08 logits");
    expect(texts).toContain("No word reaches 0.08 logits.");
  });

  it("unsigned, server's scale: starts at its low end", () => {
    const stated = { ...STATED, unit: "share" as const, start: 0.05, full: 0.07, note: null };
    const scale = buildScale({ signed: false, word_scores: [0.05, 0.052], scale: stated });
    expect(computeShade(0.052, scale)).toBeCloseTo(0.1);
  });

  it("equal scores: no shade", () => {
    expect(computeShade(0.2, buildScale({ signed: false, word_scores: [0.2, 0.2] }))).toBe(0);
    expect(computeShade(0, buildScale({ signed: true, word_scores: [] }))).toBe(0);
  });

  it.each([LIGHT, DARK])("contrast is sufficient: $name", (theme) => {
    for (const signed of [true, false])
      for (let shade = signed ? -1 : 0; shade <= 1; shade += 0.05) {
        const { background, color } = tintShade(shade, signed, theme);
        expect(computeContrast(background, color)).toBeGreaterThanOrEqual(4.5);
      }
  });
});
