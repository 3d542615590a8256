import { expect, test } from "vitest";

import { DEFAULT } from "../state/state";
import { changeOf } from "./useFallback";

const fault = (code: string) => ({ code, message: "", hint: "", see: "" });
const KNOWN = ["attcat", "rollout"];

test("an unknown method goes, those beside it stay", () => {
  const state = { ...DEFAULT, methods: ["nonsense", "rollout"] };
  expect(changeOf(fault("unknown-method"), state, KNOWN)).toEqual({ methods: ["rollout"] });
  expect(changeOf(fault("unknown-method"), { ...DEFAULT, methods: ["nonsense"] }, KNOWN)).toEqual({
    methods: [], // the usual one
  });
});

test("an unknown target goes", () => {
  expect(changeOf(fault("unknown-target"), { ...DEFAULT, target: "banana" }, KNOWN)).toEqual({
    target: null,
  });
});

test("nothing is tried twice, and other faults are left alone", () => {
  expect(changeOf(fault("unknown-method"), DEFAULT, KNOWN)).toBeNull();
  expect(changeOf(fault("unknown-target"), DEFAULT, KNOWN)).toBeNull();
  expect(changeOf(fault("too-long"), { ...DEFAULT, target: "x" }, KNOWN)).toBeNull();
});
