import { describe, expect, it } from "vitest";

import type { Flow } from "../src/api/types";
import { shown } from "../src/flow/shown";
import { flowTable, traceName } from "../src/render/flowmarks";
import { ladder } from "../src/render/ladder";
import { titleOf } from "../src/render/scene";
import { LIGHT } from "../src/render/theme";
import { made } from "./flows";

const FLOW = made({
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

describe("the name of a trace", () => {
  it("names the class only where the weight knows it", () => {
    expect(traceName(FLOW)).toBe("the decision, the same whichever class");
    expect(traceName({ ...FLOW, class_free: false })).toBe("the decision for “\u2068positive\u2069”");
    expect(traceName({ ...FLOW, target: null })).toBe("the first token");
  });

  it.each([
    ["back", "back from “\u2068good\u2069”"],
    ["forward", "forward from “\u2068good\u2069”"],
    ["through", "from the decision back to “\u2068good\u2069”"],
  ] as const)("of a word says which way: %s", (direction, name) => {
    const flow = { ...FLOW, direction, token: 1 };
    expect(traceName(flow)).toBe(name);
    const { marks } = ladder(shown(flow, 1), { width: 900, theme: LIGHT });
    expect(marks.some((mark) => mark.kind === "text" && mark.text === name)).toBe(true);
  });
});

describe("the classic influence", () => {
  it("is a column of the table: that of the token an edge leads to", () => {
    const { columns, rows } = flowTable(shown(CLASSIC, 1));
    expect(columns.at(-1)).toBe("influence of to");
    expect(rows.map((row) => row.at(-1))).toEqual([1, 4]);
    expect(flowTable(shown(FLOW, 1)).columns.at(-1)).toBe("flow");
  });

  it("is the size of a dot, and stands beside it", () => {
    const { marks } = ladder(shown(CLASSIC, 1), { width: 900, theme: LIGHT });
    const dots = marks.filter((mark) => mark.hit?.kind === "token" && mark.kind === "path");
    expect(dots.map((dot) => /influence (\S+)$/.exec(titleOf(dot) ?? "")?.[1])).toEqual(["1", "0.5", "1", "0.25", "0.5", "4"]); // prettier-ignore
    expect(marks.filter((mark) => mark.kind === "text" && mark.text === "4")).toHaveLength(1);
  });
});
