/** Test of describeOutput in the captions: logit or probability, as each method measured it. */

import { expect, test } from "vitest";

import type { Explanations } from "../api/types";
import { describeOutput } from "./captions";

const makeExplanations = (...each: (readonly [string, "logit" | "probability"])[]): Explanations =>
  ({
    target: { label: "positive", index: 1, against: null, of: "logit" },
    explanations: each.map(([method, of]) => ({ method, of })),
  }) as unknown as Explanations; // the fields that a caption reads

test("describeOutput: says probability or logit as each method measured it", () => {
  expect(describeOutput(makeExplanations(["leave_one_out", "probability"]))).toBe("probability");
  expect(describeOutput(makeExplanations(["attcat", "logit"]))).toBe("logit");
  expect(describeOutput(makeExplanations(["attcat", "logit"], ["leave_one_out", "probability"]))).toBe(
    "attcat: logit, leave_one_out: probability",
  );
});
