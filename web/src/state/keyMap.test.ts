// @vitest-environment jsdom
import { afterEach, expect, test } from "vitest";

import { KEYS, pressed } from "./keys";

afterEach(() => document.body.replaceChildren());

function press(
  key: string,
  on: Element = document.body,
  more: KeyboardEventInit = {},
): ReturnType<typeof pressed> {
  let found: ReturnType<typeof pressed> = null;
  const listen = (event: KeyboardEvent): void => {
    found = pressed(event);
  };
  window.addEventListener("keydown", listen, { once: true });
  on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  return found;
}

function field(tag: string, attributes: Readonly<Record<string, string>> = {}): Element {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  document.body.append(element);
  return element;
}

test("every key of the map means its action, and none means two", () => {
  const all = KEYS.flatMap(({ keys }) => keys);
  expect(new Set(all).size).toBe(all.length);
  for (const { keys, action } of KEYS) for (const key of keys) expect(press(key)).toEqual({ action, key });
});

test.each([
  ["textarea", {}],
  ["select", {}],
  ["input", { type: "text" }],
  ["input", { type: "number" }],
])("keys are off while typing: %s %o", (tag, attributes) => {
  const element = field(tag, attributes);
  for (const key of ["t", "ArrowLeft", "?", "Escape", "Enter"]) expect(press(key, element)).toBeNull();
});

test("a slider and a picture keep their arrows, and nothing else", () => {
  for (const element of [field("input", { type: "range" }), field("div", { role: "listbox" })]) {
    expect(press("ArrowLeft", element)).toBeNull();
    expect(press("Enter", element)).toBeNull();
    expect(press("t", element)?.action).toBe("trace-back");
  }
});

test("a button keeps Enter", () => {
  expect(press("Enter", field("button"))).toBeNull();
  expect(press("+", field("button"))?.action).toBe("coverage-more");
});

test("shortcuts of the browser stay the browser's", () => {
  expect(press("l", document.body, { ctrlKey: true })).toBeNull();
  expect(press("f", document.body, { metaKey: true })).toBeNull();
});
