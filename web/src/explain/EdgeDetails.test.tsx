// @vitest-environment jsdom
/** Tests of the edge table (names, sorting, clicks), of the selection's sentences, and of ordinals. */

import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";

import type { Flow } from "../api/types";
import { type VisibleFlow, selectVisible } from "../flow/visibleFlow";
import { EdgeDetails, formatOrdinal, describeSelection } from "./EdgeDetails";

afterEach(cleanup);

const FLOW = {
  tokens: ["[CLS]", "not", "bad"].map((text) => ({ text })),
  edges: { layer: [1, 0], head: [3, -1], source: [0, 2], to: [2, 1], flow: [0.4, 0.1], weight: [0.75, 0.5] },
  nodes: [
    [0, 0.1, 0.2],
    [0.4, 0, 0.5],
    [1, 0, 0],
  ],
  total: 0.5,
  whole: 0.8,
  count: 2,
  layers: 2,
  direction: "back",
} as unknown as Flow;
const VISIBLE: VisibleFlow = selectVisible(FLOW, 1);

test("describeSelection, edge with flow 0.4: says 40% of the unit that set out, as the table does", () => {
  expect(describeSelection({ kind: "edge", index: 0 }, null, VISIBLE)).toEqual([
    "Layer 1, head 3: “[CLS]” attends to “bad” with weight 0.75; 40.0% of the unit that set out takes this edge, 1st of 2 shown.",
  ]);
  expect(describeSelection({ kind: "edge", index: 1 }, null, VISIBLE)[0]).toMatch(
    /^Layer 0, all heads: “bad” attends to “not”/,
  );
});

test("describeSelection, token: names the mass that arrives", () => {
  expect(describeSelection({ kind: "token", token: 2, level: 1 }, null, VISIBLE)).toEqual([
    "“bad” at level 1: 50.0% of the unit that set out arrives there; shown are 1 edge into it and 1 edge out of it.",
  ]);
});

test("describeSelection, head: sums its edges", () => {
  expect(describeSelection(null, [1, 3], VISIBLE)).toEqual([
    "Layer 1, head 3: 1 of the shown edges, 40.0% of the unit that set out.",
  ]);
});

test("describeSelection, forward trace: an edge is a share of the mass above it", () => {
  const forward = selectVisible({ ...FLOW, direction: "forward", token: 2 } as Flow, 1);
  expect(describeSelection({ kind: "edge", index: 0 }, null, forward)[0]).toContain(
    "40.0% of what stands at “[CLS]” above it comes by this edge",
  );
  expect(describeSelection({ kind: "token", token: 2, level: 1 }, null, forward)[0]).toContain(
    "50.0% of what stands there comes from “bad”",
  );
});

test("EdgeDetails: names each edge, sorts by column, reports the clicked edge", () => {
  const onEdge = vi.fn();
  render(
    <EdgeDetails
      visible={VISIBLE}
      selected={{ kind: "edge", index: 0 }}
      isStale={false}
      caption=""
      onEdge={onEdge}
    />,
  );
  const rows = (): string[] =>
    screen
      .getAllByRole("row")
      .slice(1)
      .map((row) => row.textContent ?? "");
  expect(rows()).toEqual(["11.3[CLS]bad0.40.75", "20.allbadnot0.10.5"]);
  fireEvent.click(screen.getByRole("button", { name: "weight" }));
  fireEvent.click(screen.getByRole("button", { name: /^weight/ }));
  expect(rows()[0]).toBe("20.allbadnot0.10.5");
  expect(screen.getByRole("columnheader", { name: /weight/ }).getAttribute("aria-sort")).toBe("ascending");
  fireEvent.click(screen.getByRole("button", { name: "2" }));
  expect(onEdge).toHaveBeenCalledWith(1);
});

test("formatOrdinal: 1st, 2nd, 3rd and the teens", () => {
  expect([1, 2, 3, 4, 11, 12, 13, 21, 102, 113].map(formatOrdinal)).toEqual([
    "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "113th",
  ]); // prettier-ignore
});
