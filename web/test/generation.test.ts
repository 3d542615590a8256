/** Tests of the generation grid. */

import { describe, expect, it } from "vitest";

import type { Generation } from "../src/api/types";
import { drawGeneration } from "../src/render/generation";
import { type Mark, getTitle } from "../src/render/scene";
import { LIGHT } from "../src/render/theme";

const makePiece = (text: string, total: number, share: number | null, special = false) => ({
  text,
  special,
  marked: false,
  total,
  share,
  chance: special ? null : 0.5,
});
const GENERATION: Generation = {
  kind: "generation",
  model: { name: "stories", fingerprint: "x", labels: [] },
  input: { text: "the dog", pair: null, dropped: 0 },
  text: " ran\n",
  full: false,
  method: "attcat",
  signed: true,
  granularity: "word",
  pieces: [makePiece("<s>", 0, null, true), makePiece("the", -1, 0.25), makePiece("dog", 3, 0.75)],
  outputs: [
    { text: " ran", probability: 0.5 },
    { text: "\n", probability: null },
  ],
  matrix: [[0, -1, 2], [0, 0, 1]], // prettier-ignore
  earlier: [[0, 0], [0.5, 0]], // prettier-ignore
  total: [0, -1, 3],
  passes: { forward: 2, backward: 2 },
  seconds: 0.1,
  warnings: [],
};
const getFill = (mark: Mark | undefined): string => (mark?.kind === "rect" ? (mark.fill ?? "") : "");

describe("drawGeneration", () => {
  const scene = drawGeneration(GENERATION, { width: 600, theme: LIGHT });
  const all = scene.marks.filter((mark) => mark.hit?.kind === "cell");
  const cells = all.filter(({ hit }) => hit?.kind === "cell" && hit.column < GENERATION.pieces.length);
  const texts = all.filter(({ hit }) => hit?.kind === "cell" && hit.column === GENERATION.pieces.length);

  it("has a cell for each output and piece, and a row of sums", () => {
    expect(cells).toHaveLength(9);
    expect(getTitle(cells[2] ?? cells[0]!)).toContain(": 2"); // eslint-disable-line @typescript-eslint/no-non-null-assertion
  });

  it("each piece: states its share and the chance level", () => {
    expect(getTitle(cells[8]!)).toMatch(/75% of what fell on the prompt; by chance 50%$/); // eslint-disable-line @typescript-eslint/no-non-null-assertion
  });

  it("positive and negative scores: coloured by sign, zero as paper", () => {
    const fills = cells.map(getFill);
    expect(fills[0]).toBe(LIGHT.paper);
    expect(fills[1]).not.toBe(fills[2]);
    expect(fills[8]).toBe(fills[2]); // both are the strongest of their scale
  });

  it("table: has every cell and the sums", () => {
    expect(scene.table.rows).toHaveLength(12);
    expect(scene.table.rows[1]).toEqual([0, " ran", 1, "the", -1]);
    expect(scene.table.rows.at(-2)).toEqual(["all", "", 2, "dog", 3]);
  });

  it("earlier outputs: a column with the terminal's numbers", () => {
    const written = scene.marks.flatMap((mark) => (mark.kind === "text" ? [mark.text] : []));
    expect(written).toContain("said before");
    expect(texts).toHaveLength(3);
    expect(getTitle(texts[1]!)).toMatch(/from what was said before: 0.5 \(\+25\)$/); // eslint-disable-line @typescript-eslint/no-non-null-assertion
    expect(written).toContain("+25"); // hundredths of 2, the largest of a piece
    expect(scene.table.rows).toContainEqual([1, "\n", "before", "(said before)", 0.5]);
    expect(scene.table.rows.at(-1)).toEqual(["all", "", "before", "(said before)", 0.5]);
  });

  it("single output: no column of earlier outputs", () => {
    const one = {
      ...GENERATION,
      outputs: GENERATION.outputs.slice(0, 1),
      matrix: [[0, -1, 2]],
      earlier: [[0]],
    };
    const alone = drawGeneration(one, { width: 600, theme: LIGHT });
    expect(alone.table.rows).toHaveLength(6);
    expect(alone.label).not.toContain("said before");
  });

  it("special tokens and earlier outputs: do not set the scale", () => {
    const strong = { ...GENERATION, matrix: [[9, -1, 2], [9, 0, 1]], earlier: [[0, 0], [50, 0]], total: [18, -1, 3] }; // prettier-ignore
    const drawn = drawGeneration(strong, { width: 600, theme: LIGHT });
    const fills = drawn.marks.filter(({ hit }) => hit?.kind === "cell").map(getFill);
    expect(fills.slice(1, 3)).toEqual(cells.slice(1, 3).map(getFill));
    expect(fills[0]).toBe(fills[2]); // beyond the scale is full colour
    expect(drawn.marks.some((mark) => mark.kind === "text" && mark.text === "+2500")).toBe(true);
  });

  it("many pieces: grows beyond its container, cells keep their least width", () => {
    const pieces = Array.from({ length: 200 }, () => makePiece("x", 0, 0.005));
    const matrix = [pieces.map(() => 0)];
    const wide = drawGeneration(
      {
        ...GENERATION,
        pieces,
        matrix,
        earlier: [[0]],
        outputs: GENERATION.outputs.slice(0, 1),
        total: pieces.map(() => 0),
      },
      { width: 600, theme: LIGHT },
    );
    expect(wide.width).toBeGreaterThan(200 * 13);
  });
});
