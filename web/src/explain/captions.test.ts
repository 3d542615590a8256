import { expect, test } from "vitest";

import type { Explanations } from "../api/types";
import { ofEach } from "./captions";

const said = (...each: (readonly [string, "logit" | "probability"])[]): Explanations =>
  ({
    target: { label: "positive", index: 1, against: null, of: "logit" },
    explanations: each.map(([method, of]) => ({ method, of })),
  }) as unknown as Explanations; // what a caption reads of them

test("a caption says probability where a probability is measured, and logit only where a logit is", () => {
  expect(ofEach(said(["leave_one_out", "probability"]))).toBe("probability");
  expect(ofEach(said(["attcat", "logit"]))).toBe("logit");
  expect(ofEach(said(["attcat", "logit"], ["leave_one_out", "probability"]))).toBe(
    "attcat: logit, leave_one_out: probability",
  );
});
