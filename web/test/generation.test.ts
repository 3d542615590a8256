import { describe, expect, it } from "vitest";

import type { Generated } from "../src/api/types";
import { generation } from "../src/render/generation";
import { titleOf } from "../src/render/scene";
import { LIGHT } from "../src/render/theme";

const piece = (text: string, total: number, share: number | null, special = false) => ({
  text,
  special,
  marked: false,
  total,
  share,
  chance: special ? null : 0.5,
});
const MADE: Generated = {
  kind: "generation",
  model: { name: "stories", fingerprint: "x", labels: [] },
  input: { text: "the dog", pair: null, dropped: 0 },
  text: " ran\n",
  full: false,
  method: "attcat",
  signed: true,
  granularity: "word",
  pieces: [piece("<s>", 0, null, true), piece("the", -1, 0.25), piece("dog", 3, 0.75)],
  outputs: [
    { text: " ran", probability: 0.5 },
    { text: "\n", probability: null },
  ],
  matrix: [[0, -1, 2], [0, 0, 1]], // prettier-ignore
  earlier: [[0, 0], [0.5, 0]], // prettier-ignore
  total: [0, -1, 3],
  passes: { forward: 2, backward: 2 },
  seconds: 0.1,
};

describe("a generation", () => {
  const scene = generation(MADE, { width: 600, theme: LIGHT });
  const cells = scene.marks.filter((mark) => mark.hit?.kind === "cell");

  it("has a cell for each output and piece, and a row that sums them", () => {
    expect(cells).toHaveLength(9);
    expect(titleOf(cells[2] ?? cells[0]!)).toContain(": 2"); // eslint-disable-line @typescript-eslint/no-non-null-assertion
  });

  it("says of each piece what fell on it, and what chance gives", () => {
    expect(titleOf(cells[8]!)).toMatch(/75% of what fell on the prompt; by chance 50%$/); // eslint-disable-line @typescript-eslint/no-non-null-assertion
  });

  it("colours for and against, and nothing as nothing", () => {
    const fills = cells.map((cell) => (cell.kind === "rect" ? cell.fill : ""));
    expect(fills[0]).toBe(LIGHT.paper);
    expect(fills[1]).not.toBe(fills[2]);
    expect(fills[8]).toBe(fills[2]); // both are the strongest of their scale
  });

  it("is a table of every cell, and of the sums", () => {
    expect(scene.table.rows).toHaveLength(9);
    expect(scene.table.rows[1]).toEqual([0, " ran", 1, "the", -1]);
    expect(scene.table.rows.at(-1)).toEqual(["all", "", 2, "dog", 3]);
  });

  it("grows beyond its place rather than to be too small to see", () => {
    const pieces = Array.from({ length: 200 }, () => piece("x", 0, 0.005));
    const matrix = [pieces.map(() => 0)];
    const wide = generation(
      { ...MADE, pieces, matrix, outputs: MADE.outputs.slice(0, 1), total: pieces.map(() => 0) },
      { width: 600, theme: LIGHT },
    );
    expect(wide.width).toBeGreaterThan(200 * 13);
  });
});
