// @vitest-environment jsdom
/** Tests of the address and memory stores: history steps, drags, defaults in the link, unreadable links. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { DEFAULT } from "./state";
import { type Store, createAddressStore, createMemoryStore } from "./store";

let store: Store;
beforeEach(() => {
  vi.useFakeTimers();
  window.history.replaceState(null, "", "#/explain?text=good");
  store = createAddressStore(window);
});
afterEach(() => {
  store.close();
  vi.useRealTimers();
});

function goBack(): Promise<void> {
  vi.useRealTimers();
  return new Promise((resolve) => {
    window.addEventListener("popstate", () => resolve(), { once: true });
    window.history.back();
  });
}

test("starts with the state of the link", () => {
  expect(store.get()).toEqual({ ...DEFAULT, text: "good" });
});

test("update with push: adds a history step", async () => {
  const listener = vi.fn();
  store.subscribe(listener);
  store.update({ token: 3 });
  expect(window.location.hash).toBe("#/explain?text=good&tok=3");
  await goBack();
  expect(store.get().token).toBeNull();
  expect(listener).toHaveBeenCalledTimes(2);
});

test("drag: one history step, written after a pause", () => {
  const steps = window.history.length;
  for (const percent of [51, 52, 53]) store.update({ coverage: percent / 100 }, "replace");
  expect(store.get().coverage).toBe(0.53);
  expect(window.location.hash).toBe("#/explain?text=good");
  vi.advanceTimersByTime(200);
  expect(window.location.hash).toBe("#/explain?text=good&p=53");
  expect(window.history.length).toBe(steps);
});

test("push right after a drag: keeps the drag's step", async () => {
  store.update({ coverage: 0.7 }, "replace");
  store.update({ token: 1 });
  expect(window.location.hash).toBe("#/explain?text=good&tok=1&p=70");
  await goBack();
  expect(store.get()).toEqual({ ...DEFAULT, text: "good", coverage: 0.7 });
});

test("update without a change: notifies no listener", () => {
  const listener = vi.fn();
  store.subscribe(listener);
  store.update({ text: "good", tokens: [] });
  expect(listener).not.toHaveBeenCalled();
});

test("unreadable link: problems are kept until the next update", () => {
  store.close();
  window.history.replaceState(null, "", "#/explain?p=abc");
  store = createAddressStore(window);
  expect(store.problems()).toHaveLength(1);
  store.update({ token: 1 });
  expect(store.problems()).toEqual([]);
});

test("createMemoryStore: keeps the state without an address", () => {
  const memory = createMemoryStore(DEFAULT);
  const listener = vi.fn();
  memory.subscribe(listener);
  memory.update({ token: 2 });
  expect(memory.get().token).toBe(2);
  expect(listener).toHaveBeenCalledOnce();
  expect(window.location.hash).toBe("#/explain?text=good");
});

test("addDefaults: joins the address, leaves the state unchanged", () => {
  const steps = window.history.length;
  store.addDefaults({ model: "reviews" });
  store.addDefaults({ coverage: 0.14 });
  expect(window.location.hash).toBe("#/explain?model=reviews&text=good&p=14");
  expect(window.history.length).toBe(steps);
  expect(store.get()).toEqual({ ...DEFAULT, text: "good" });
  expect(store.getLinkState()).toMatchObject({ model: "reviews", coverage: 0.14 });
});

test("update: drops the defaults of the previous state", () => {
  store.addDefaults({ coverage: 0.14 });
  store.update({ text: "bad" });
  expect(window.location.hash).toBe("#/explain?text=bad");
});

test("addDefaults during a drag: written after the pause", () => {
  store.update({ coverage: 0.6 }, "replace");
  store.addDefaults({ model: "reviews" });
  expect(window.location.hash).toBe("#/explain?text=good");
  vi.advanceTimersByTime(200);
  expect(window.location.hash).toBe("#/explain?model=reviews&text=good&p=60");
});

test("back to a link with defaults: parsed as choices", async () => {
  store.addDefaults({ coverage: 0.14 });
  store.update({ token: 1 });
  await goBack();
  expect(store.get()).toEqual({ ...DEFAULT, text: "good", coverage: 0.14 });
});
