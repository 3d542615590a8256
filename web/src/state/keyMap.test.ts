// @vitest-environment jsdom
/** Tests of the key map: one action for each key; sliders, buttons and browser shortcuts keep theirs. */

import { afterEach, expect, test } from "vitest";

import { KEYS, matchKey } from "./keyMap";

afterEach(() => document.body.replaceChildren());

function makeEvent(
  key: string,
  on: Element = document.body,
  more: KeyboardEventInit = {},
): ReturnType<typeof matchKey> {
  let keyPress: ReturnType<typeof matchKey> = null;
  const listen = (event: KeyboardEvent): void => {
    keyPress = matchKey(event);
  };
  window.addEventListener("keydown", listen, { once: true });
  on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  return keyPress;
}

function makeField(tag: string, attributes: Readonly<Record<string, string>> = {}): Element {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  document.body.append(element);
  return element;
}

test("every key of the map has exactly one action", () => {
  const all = KEYS.flatMap(({ keys }) => keys);
  expect(new Set(all).size).toBe(all.length);
  for (const { keys, action } of KEYS)
    for (const key of keys) expect(makeEvent(key)).toEqual({ action, key });
});

test.each([
  ["textarea", {}],
  ["select", {}],
  ["input", { type: "text" }],
  ["input", { type: "number" }],
])("typing in a field: no action for %s %o", (tag, attributes) => {
  const element = makeField(tag, attributes);
  for (const key of ["t", "ArrowLeft", "?", "Escape", "Enter"]) expect(makeEvent(key, element)).toBeNull();
});

test("slider and picture: keep their arrow keys only", () => {
  for (const element of [makeField("input", { type: "range" }), makeField("div", { role: "listbox" })]) {
    expect(makeEvent("ArrowLeft", element)).toBeNull();
    expect(makeEvent("Enter", element)).toBeNull();
    expect(makeEvent("t", element)?.action).toBe("trace-back");
  }
});

test("button: keeps Enter", () => {
  expect(makeEvent("Enter", makeField("button"))).toBeNull();
  expect(makeEvent("+", makeField("button"))?.action).toBe("coverage-more");
});

test("browser shortcuts: no action", () => {
  expect(makeEvent("l", document.body, { ctrlKey: true })).toBeNull();
  expect(makeEvent("f", document.body, { metaKey: true })).toBeNull();
});
