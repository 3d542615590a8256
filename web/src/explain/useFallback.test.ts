/** Tests of findFallback: unknown methods and targets are removed; repeated or other faults give null. */

import { expect, test } from "vitest";

import { DEFAULT } from "../state/state";
import { findFallback } from "./useFallback";

const makeFault = (code: string) => ({ code, message: "", hint: "", see: "" });
const KNOWN = ["attcat", "rollout"];

test("unknown method: removed, the others stay", () => {
  const state = { ...DEFAULT, methods: ["nonsense", "rollout"] };
  expect(findFallback(makeFault("unknown-method"), state, KNOWN)).toEqual({ methods: ["rollout"] });
  expect(findFallback(makeFault("unknown-method"), { ...DEFAULT, methods: ["nonsense"] }, KNOWN)).toEqual({
    methods: [], // the model's default
  });
});

test("unknown target: removed", () => {
  expect(findFallback(makeFault("unknown-target"), { ...DEFAULT, target: "banana" }, KNOWN)).toEqual({
    target: null,
  });
});

test("repeated or other fault: returns null", () => {
  expect(findFallback(makeFault("unknown-method"), DEFAULT, KNOWN)).toBeNull();
  expect(findFallback(makeFault("unknown-target"), DEFAULT, KNOWN)).toBeNull();
  expect(findFallback(makeFault("too-long"), { ...DEFAULT, target: "x" }, KNOWN)).toBeNull();
});
