// @vitest-environment jsdom
import { act, cleanup, renderHook, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";

import type { Asking } from "../source/source";
import { SourceError } from "../source/source";
import { useAsked, useJob } from "./useAsked";

afterEach(cleanup);

interface Question {
  readonly key: string;
  readonly asking: Asking;
  readonly answer: (value: string) => void;
  readonly refuse: (error: unknown) => void;
}

function askedBy(first: string | null) {
  const questions: Question[] = [];
  const hook = renderHook(
    ({ key }: { key: string | null }) =>
      useAsked(
        key,
        (asking) =>
          new Promise<string>((answer, refuse) => questions.push({ key: key ?? "", asking, answer, refuse })),
      ),
    { initialProps: { key: first } },
  );
  return { questions, ...hook };
}

test("the latest question wins, and the one before is called off", async () => {
  const { questions, result, rerender } = askedBy("a");
  expect(result.current).toMatchObject({ value: null, pending: true });
  rerender({ key: "b" });
  expect(questions.map(({ key, asking }) => [key, asking.signal?.aborted])).toEqual([
    ["a", true],
    ["b", false],
  ]);
  await act(async () => questions[1]?.answer("of b"));
  await act(async () => questions[0]?.answer("of a"));
  expect(result.current).toMatchObject({ value: "of b", pending: false });
});

test("the old answer stays while the next is on its way, and after a refusal", async () => {
  const { questions, result, rerender } = askedBy("a");
  await act(async () => questions[0]?.answer("of a"));
  rerender({ key: "b" });
  expect(result.current).toMatchObject({ value: "of a", pending: true, fault: null });
  const fault = { code: "x", message: "no", hint: "", see: "" };
  await act(async () => questions[1]?.refuse(new SourceError(fault)));
  expect(result.current).toMatchObject({ value: "of a", pending: false, fault });
  act(() => result.current.again());
  expect(result.current).toMatchObject({ pending: true, fault: null });
  await act(async () => questions[2]?.answer("of b"));
  expect(result.current).toMatchObject({ value: "of b", fault: null });
});

test("nothing is asked without a key", () => {
  expect(askedBy(null).questions).toEqual([]);
});

test("what came of a job is forgotten with its key, and the job is called off", async () => {
  const { result, rerender } = renderHook(({ key }) => useJob<string>(key), { initialProps: { key: "a" } });
  act(() => result.current.run(async () => "done"));
  await waitFor(() => expect(result.current.value).toBe("done"));
  let signal: AbortSignal | undefined;
  act(() =>
    result.current.run((asking) => {
      signal = asking.signal;
      return new Promise(() => undefined);
    }),
  );
  expect(result.current).toMatchObject({ running: true, value: null });
  rerender({ key: "b" });
  expect(result.current).toMatchObject({ running: false, value: null });
  expect(signal?.aborted).toBe(true);
});
