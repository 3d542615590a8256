// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";

import type { Job, TrustCard as Card, TrustTest } from "../api/types";
import type { Working } from "../shell/useAsked";
import { TrustCard, figuresOf } from "./TrustCard";

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
const CARD: Card = {
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
const IDLE: Working<Card> = {
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

function show(work: Partial<Working<Card>> = {}, whyNot: string | null = null) {
  const onTest = vi.fn();
  render(
    <TrustCard work={{ ...IDLE, ...work }} methods={["attcat"]} caption="" whyNot={whyNot} onTest={onTest} />,
  );
  return onTest;
}

test("before the test it says that there was none, and offers it", () => {
  const onTest = show();
  expect(screen.getByText("not tested")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Test it" }));
  expect(onTest).toHaveBeenCalledOnce();
});

test("where it is out of reach the button says why", () => {
  show({}, "A file cannot test.");
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Test it" });
  expect(button.disabled).toBe(true);
  expect(screen.getByText("A file cannot test.")).toBeTruthy();
});

test("while it waits it says where it stands, and can be called off", () => {
  const cancel = vi.fn();
  show({ running: true, job: JOB, cancel });
  expect(screen.getByText("waits: 2 jobs before yours")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(cancel).toHaveBeenCalledOnce();
});

test("while it runs it says how far it is and how long it will take", () => {
  show({
    running: true,
    job: { ...JOB, state: "running", position: 0, done: 30, total: 120, remaining: 12.4 },
  });
  expect(screen.getByText("30 of 120 · about 12 s left")).toBeTruthy();
  expect(screen.getByRole<HTMLProgressElement>("progressbar").value).toBe(0.25);
});

test("the outcome stands in words, beside what chance gets", () => {
  show({ value: CARD });
  expect(screen.getByText(CARD.sentence)).toBeTruthy();
  expect(screen.getByText(TEST.why)).toBeTruthy();
  expect(screen.getByText(figuresOf(TEST))).toBeTruthy();
  expect(screen.getByText("Not tested: class sensitivity")).toBeTruthy();
});

test("a value never stands alone", () => {
  expect(figuresOf(TEST)).toBe(
    "value 0.42, higher is better · random 0.1 (−0.05 to 0.2) · percentile 97 (93.1 to 99.2) · beats 97 of 100",
  );
  expect(figuresOf({ ...TEST, value: null })).toBe("");
});

test("a failure says what to do", () => {
  show({ fault: { code: "x", message: "It broke.", hint: "Do that.", see: "" } });
  expect(screen.getByRole("alert").textContent).toContain("It broke.Do that.");
});
