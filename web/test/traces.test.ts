/** Tests of trace names by class and direction, and of the classic influence in flow table and ladder. */

import { describe, expect, it } from "vitest";

import type { Flow } from "../src/api/types";
import { selectVisible } from "../src/flow/visibleFlow";
import { buildFlowTable, nameTrace } from "../src/render/flowmarks";
import { drawLadder } from "../src/render/ladder";
import { getTitle } from "../src/render/scene";
import { LIGHT } from "../src/render/theme";
import { makeFlow } from "./flows";

const FLOW = makeFlow({
  tokens: ["[CLS]", "good", "film"],
  edges: [
    [1, 0, 0, 1, 0.5],
    [0, 1, 1, 2, 0.25],
  ],
});
// Two layers: from the input up, how often each token was reached, with decay.
const CLASSIC: Flow = {
  ...FLOW,
  influence: {
    threshold: 0.1,
    decay: 0.5,
    carry: true,
    reached: [3, 2, 1],
    values: [
      [0.25, 0.5, 4],
      [0.5, 1, 0],
      [1, 0, 0],
    ],
  },
};

describe("nameTrace", () => {
  it("names the class only for weights that depend on it", () => {
    expect(nameTrace(FLOW)).toBe("the decision, the same whichever class");
    expect(nameTrace({ ...FLOW, class_free: false })).toBe("the decision for “\u2068positive\u2069”");
    expect(nameTrace({ ...FLOW, target: null })).toBe("the first token");
  });

  it.each([
    ["back", "back from “\u2068good\u2069”"],
    ["forward", "forward from “\u2068good\u2069”"],
    ["through", "from the decision back to “\u2068good\u2069”"],
  ] as const)("word: names the direction: %s", (direction, name) => {
    const flow = { ...FLOW, direction, token: 1 };
    expect(nameTrace(flow)).toBe(name);
    const { marks } = drawLadder(selectVisible(flow, 1), { width: 900, theme: LIGHT });
    expect(marks.some((mark) => mark.kind === "text" && mark.text === name)).toBe(true);
  });
});

describe("classic influence", () => {
  it("table: has the influence of the token that is read", () => {
    const { columns, rows } = buildFlowTable(selectVisible(CLASSIC, 1));
    expect(columns.at(-1)).toBe("influence of to");
    expect(rows.map((row) => row.at(-1))).toEqual([1, 4]);
    expect(buildFlowTable(selectVisible(FLOW, 1)).columns.at(-1)).toBe("flow");
  });

  it("ladder: dot size and number", () => {
    const { marks } = drawLadder(selectVisible(CLASSIC, 1), { width: 900, theme: LIGHT });
    const dots = marks.filter((mark) => mark.hit?.kind === "token" && mark.kind === "path");
    expect(dots.map((dot) => /influence (\S+)$/.exec(getTitle(dot) ?? "")?.[1])).toEqual(["1", "0.5", "1", "0.25", "0.5", "4"]); // prettier-ignore
    expect(marks.filter((mark) => mark.kind === "text" && mark.text === "4")).toHaveLength(1);
  });
});
