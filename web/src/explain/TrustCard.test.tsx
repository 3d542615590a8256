// @vitest-environment jsdom
/** Tests of the trust card before, during and after its job: button, queue, progress, verdicts, failure. */

import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";

import type { Job, TrustCardData, TrustTest } from "../api/types";
import type { JobState } from "../shell/useRequest";
import { TrustCard, formatTestValue } from "./TrustCard";

afterEach(cleanup);

const TEST: TrustTest = {
  name: "comprehensiveness",
  remove: "mask",
  direction: "higher",
  value: 0.42,
  null: { mean: 0.1, low: -0.05, high: 0.2 },
  percentile: 97,
  interval: [93.1, 99.2],
  beaten: 97,
  tied: 0,
  of: 100,
  chance: null,
  verdict: "holds",
  why: "Removing what it points at lowers the probability more than 97 of 100 random rankings do.",
  curve: null,
};
const CARD: TrustCardData = {
  kind: "trust",
  sentence: "attcat can be believed here.",
  unit: "word",
  units: 9,
  rankings: 100,
  rules: [
    {
      name: "comprehensiveness",
      metric: "",
      question: "Does the probability fall?",
      holds: "",
      weak: "",
      fails: "",
    },
  ],
  methods: [
    {
      method: "attcat",
      params: {},
      signed: true,
      scores: [],
      word_scores: [],
      passes: { forward: 1, backward: 1 },
      verdict: "holds",
      sentence: "attcat holds.",
      tests: [
        TEST,
        {
          ...TEST,
          name: "class_sensitivity",
          value: null,
          verdict: "not tested",
          why: "There is one class.",
        },
      ],
    },
  ],
  cost: {},
};
const IDLE: JobState<TrustCardData> = {
  job: null,
  running: false,
  value: null,
  fault: null,
  run: vi.fn(),
  cancel: vi.fn(),
};
const JOB: Job = {
  id: "1",
  kind: "trust",
  model: "m",
  state: "queued",
  position: 2,
  done: 0,
  total: 0,
  remaining: null,
  result: null,
  error: null,
};

function renderCard(work: Partial<JobState<TrustCardData>> = {}, disabledReason: string | null = null) {
  const onTest = vi.fn();
  render(
    <TrustCard
      work={{ ...IDLE, ...work }}
      methods={["attcat"]}
      caption=""
      disabledReason={disabledReason}
      onTest={onTest}
    />,
  );
  return onTest;
}

test("before the test: says that nothing was tested, and offers the test", () => {
  const onTest = renderCard();
  expect(screen.getByText("not tested")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Test it" }));
  expect(onTest).toHaveBeenCalledOnce();
});

test("source out of reach: the button is disabled with the reason", () => {
  renderCard({}, "A file cannot test.");
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Test it" });
  expect(button.disabled).toBe(true);
  expect(screen.getByText("A file cannot test.")).toBeTruthy();
});

test("queued job: shows its position, and can be cancelled", () => {
  const cancel = vi.fn();
  renderCard({ running: true, job: JOB, cancel });
  expect(screen.getByText("waits: 2 jobs before yours")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(cancel).toHaveBeenCalledOnce();
});

test("running job: shows progress and time left", () => {
  renderCard({
    running: true,
    job: { ...JOB, state: "running", position: 0, done: 30, total: 120, remaining: 12.4 },
  });
  expect(screen.getByText("30 of 120 · about 12 s left")).toBeTruthy();
  expect(screen.getByRole<HTMLProgressElement>("progressbar").value).toBe(0.25);
});

test("result: verdict in words, beside the chance level", () => {
  renderCard({ value: CARD });
  expect(screen.getByText(CARD.sentence)).toBeTruthy();
  expect(screen.getByText(TEST.why)).toBeTruthy();
  expect(screen.getByText(formatTestValue(TEST))).toBeTruthy();
  expect(screen.getByText("Not tested: class sensitivity")).toBeTruthy();
});

test("formatTestValue: a value always has its chance level", () => {
  expect(formatTestValue(TEST)).toBe(
    "value 0.42, higher is better · random 0.1 (−0.05 to 0.2) · percentile 97 (93.1 to 99.2) · beats 97 of 100",
  );
  expect(formatTestValue({ ...TEST, value: null })).toBe("");
});

test("failed job: shows the hint", () => {
  renderCard({ fault: { code: "x", message: "It broke.", hint: "Do that.", see: "" } });
  expect(screen.getByRole("alert").textContent).toContain("It broke.Do that.");
});
