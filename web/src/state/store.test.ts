// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { DEFAULT } from "./state";
import { type Store, addressStore, memoryStore } from "./store";

let store: Store;
beforeEach(() => {
  vi.useFakeTimers();
  window.history.replaceState(null, "", "#/explain?text=good");
  store = addressStore(window);
});
afterEach(() => {
  store.close();
  vi.useRealTimers();
});

function back(): Promise<void> {
  vi.useRealTimers();
  return new Promise((resolve) => {
    window.addEventListener("popstate", () => resolve(), { once: true });
    window.history.back();
  });
}

test("begins with the link", () => {
  expect(store.get()).toEqual({ ...DEFAULT, text: "good" });
});

test("navigation leaves a step for the back button", async () => {
  const told = vi.fn();
  store.subscribe(told);
  store.update({ token: 3 });
  expect(window.location.hash).toBe("#/explain?text=good&tok=3");
  await back();
  expect(store.get().token).toBeNull();
  expect(told).toHaveBeenCalledTimes(2);
});

test("a drag is one step, written when the hand rests", () => {
  const steps = window.history.length;
  for (const percent of [51, 52, 53]) store.update({ coverage: percent / 100 }, "replace");
  expect(store.get().coverage).toBe(0.53);
  expect(window.location.hash).toBe("#/explain?text=good");
  vi.advanceTimersByTime(200);
  expect(window.location.hash).toBe("#/explain?text=good&p=53");
  expect(window.history.length).toBe(steps);
});

test("a step right after a drag does not swallow it", async () => {
  store.update({ coverage: 0.7 }, "replace");
  store.update({ token: 1 });
  expect(window.location.hash).toBe("#/explain?text=good&tok=1&p=70");
  await back();
  expect(store.get()).toEqual({ ...DEFAULT, text: "good", coverage: 0.7 });
});

test("what changes nothing tells nobody", () => {
  const told = vi.fn();
  store.subscribe(told);
  store.update({ text: "good", tokens: [] });
  expect(told).not.toHaveBeenCalled();
});

test("a bad link is told until the next step", () => {
  store.close();
  window.history.replaceState(null, "", "#/explain?p=abc");
  store = addressStore(window);
  expect(store.problems()).toHaveLength(1);
  store.update({ token: 1 });
  expect(store.problems()).toEqual([]);
});

test("without an address the state is kept all the same", () => {
  const memory = memoryStore(DEFAULT);
  const told = vi.fn();
  memory.subscribe(told);
  memory.update({ token: 2 });
  expect(memory.get().token).toBe(2);
  expect(told).toHaveBeenCalledOnce();
  expect(window.location.hash).toBe("#/explain?text=good");
});

test("what is shown joins the address and leaves the state as it is", () => {
  const steps = window.history.length;
  store.settle({ model: "reviews" });
  store.settle({ coverage: 0.14 });
  expect(window.location.hash).toBe("#/explain?model=reviews&text=good&p=14");
  expect(window.history.length).toBe(steps);
  expect(store.get()).toEqual({ ...DEFAULT, text: "good" });
  expect(store.linked()).toMatchObject({ model: "reviews", coverage: 0.14 });
});

test("another question forgets what was settled for the one before", () => {
  store.settle({ coverage: 0.14 });
  store.update({ text: "bad" });
  expect(window.location.hash).toBe("#/explain?text=bad");
});

test("while a hand moves, nothing is written before it rests", () => {
  store.update({ coverage: 0.6 }, "replace");
  store.settle({ model: "reviews" });
  expect(window.location.hash).toBe("#/explain?text=good");
  vi.advanceTimersByTime(200);
  expect(window.location.hash).toBe("#/explain?model=reviews&text=good&p=60");
});

test("what was settled comes back as a choice", async () => {
  store.settle({ coverage: 0.14 });
  store.update({ token: 1 });
  await back();
  expect(store.get()).toEqual({ ...DEFAULT, text: "good", coverage: 0.14 });
});
