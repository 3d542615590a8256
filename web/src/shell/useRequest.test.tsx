// @vitest-environment jsdom
/** Tests of useRequest and useJob: latest key wins, aborts, old answers kept, null key, dropped outcomes. */

import { act, cleanup, renderHook, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";

import type { RequestOptions } from "../source/source";
import { SourceError } from "../source/source";
import { useRequest, useJob } from "./useRequest";

afterEach(cleanup);

interface Question {
  readonly key: string;
  readonly asking: RequestOptions;
  readonly answer: (value: string) => void;
  readonly refuse: (error: unknown) => void;
}

function askedBy(first: string | null) {
  const questions: Question[] = [];
  const hook = renderHook(
    ({ key }: { key: string | null }) =>
      useRequest(
        key,
        (options) =>
          new Promise<string>((answer, refuse) =>
            questions.push({ key: key ?? "", asking: options, answer, refuse }),
          ),
      ),
    { initialProps: { key: first } },
  );
  return { questions, ...hook };
}

test("useRequest, new key: the latest answer wins, the earlier request is aborted", async () => {
  const { questions, result, rerender } = askedBy("a");
  expect(result.current).toMatchObject({ value: null, pending: true });
  rerender({ key: "b" });
  expect(questions.map(({ key, asking: options }) => [key, options.signal?.aborted])).toEqual([
    ["a", true],
    ["b", false],
  ]);
  await act(async () => questions[1]?.answer("of b"));
  await act(async () => questions[0]?.answer("of a"));
  expect(result.current).toMatchObject({ value: "of b", pending: false });
});

test("useRequest: keeps the old answer while pending and after a refusal", async () => {
  const { questions, result, rerender } = askedBy("a");
  await act(async () => questions[0]?.answer("of a"));
  rerender({ key: "b" });
  expect(result.current).toMatchObject({ value: "of a", pending: true, fault: null });
  const fault = { code: "x", message: "no", hint: "", see: "" };
  await act(async () => questions[1]?.refuse(new SourceError(fault)));
  expect(result.current).toMatchObject({ value: "of a", pending: false, fault });
  act(() => result.current.retry());
  expect(result.current).toMatchObject({ pending: true, fault: null });
  await act(async () => questions[2]?.answer("of b"));
  expect(result.current).toMatchObject({ value: "of b", fault: null });
});

test("useRequest, null key: sends no request", () => {
  expect(askedBy(null).questions).toEqual([]);
});

test("useJob, new key: drops the outcome and aborts the job", async () => {
  const { result, rerender } = renderHook(({ key }) => useJob<string>(key), { initialProps: { key: "a" } });
  act(() => result.current.run(async () => "done"));
  await waitFor(() => expect(result.current.value).toBe("done"));
  let signal: AbortSignal | undefined;
  act(() =>
    result.current.run((options) => {
      signal = options.signal;
      return new Promise(() => undefined);
    }),
  );
  expect(result.current).toMatchObject({ running: true, value: null });
  rerender({ key: "b" });
  expect(result.current).toMatchObject({ running: false, value: null });
  expect(signal?.aborted).toBe(true);
});
