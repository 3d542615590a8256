/** Tests of rendering: SVG, PNG and CSV writers, captions, text helpers, theme contrast, hit index. */

import { inflateSync } from "node:zlib";
import { JSDOM } from "jsdom";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { selectVisible } from "../src/flow/visibleFlow";
import { formatCaption, wrapCaption } from "../src/render/caption";
import { formatCsv } from "../src/render/csv";
import { computeArc } from "../src/render/geometry";
import { createHitIndex } from "../src/render/hitIndex";
import { circle } from "../src/render/marks";
import { encodePng } from "../src/render/pixels";
import { chooseScale } from "../src/render/png";
import type { Mark, Scene } from "../src/render/scene";
import { renderSvg } from "../src/render/svg";
import {
  formatSignificant,
  fitWidth,
  formatShare,
  quoteToken,
  shorten,
  showInvisible,
  measureWidth,
} from "../src/render/text";
import { computeContrast, DARK, chooseInk, LIGHT } from "../src/render/theme";
import { VIEWS } from "../src/render/views";
import { readFixture, HOSTILE, makeFlow } from "./flows";

function sceneOf(marks: readonly Mark[], label = "a scene"): Scene {
  return { width: 200, height: 100, marks, label, table: { columns: [], rows: [] }, edges: [] };
}

describe("renderSvg", () => {
  const hostile = makeFlow({
    tokens: HOSTILE,
    edges: HOSTILE.map((_, i) => [1, 0, 0, i, 0.1 + i / 100] as const),
  });

  it.each(Object.keys(VIEWS) as (keyof typeof VIEWS)[])(
    "hostile tokens: well-formed XML without extra tags: %s",
    (name) => {
      const scene = VIEWS[name](selectVisible(hostile, 1), { width: 800, theme: LIGHT });
      const file = renderSvg(scene, LIGHT, `whence · ${HOSTILE.join(" ")}`);
      const { document } = new JSDOM(file, { contentType: "image/svg+xml" }).window;
      const tags = new Set([...document.querySelectorAll("*")].map((element) => element.tagName));
      expect([...tags].sort()).toEqual(["metadata", "path", "rect", "svg", "text", "title"]);
      expect(document.querySelectorAll("[onerror], [onload], [href]")).toHaveLength(0);
      expect(document.querySelector("metadata")?.textContent).toContain("<img src=x onerror=alert(1)>");
    },
  );

  it("every edge: has a mark with a title that names it", () => {
    const flow = selectVisible(readFixture("attention"), 0.5);
    const { document } = new JSDOM(renderSvg(VIEWS.ladder(flow, { width: 800, theme: LIGHT }), LIGHT, ""), {
      contentType: "image/svg+xml",
    }).window;
    const edges = [...document.querySelectorAll("[data-edge]")];
    expect(edges).toHaveLength(flow.edges.length);
    expect(
      edges.every((edge) => /^layer \d, head \d: /.test(edge.querySelector("title")?.textContent ?? "")),
    ).toBe(true);
  });

  it("caption: shown, and kept as metadata", () => {
    const words = formatCaption({
      model: "reviews",
      revision: "abc",
      method: "attcat",
      weight: "value_zeroing",
      coverage: 0.5,
      unit: "3–31% of the unit that set out in each layer, 50% goes past it",
      date: "2026-11-15",
    });
    expect(words).toBe(
      "whence · reviews@abc · method attcat · edge weight value zeroing · coverage 50% · shown 3–31% of the unit that set out in each layer, 50% goes past it · 2026-11-15",
    );
    const { document } = new JSDOM(renderSvg(sceneOf([]), LIGHT, words), { contentType: "image/svg+xml" })
      .window;
    expect(document.querySelector("metadata")?.textContent).toBe(words);
    expect([...document.querySelectorAll("text")].map((text) => text.textContent).join(" ")).toBe(words);
  });
});

it("formatCaption: names the content and the model", () => {
  const words = formatCaption({
    model: "/home/somebody/models/minilm/",
    fingerprint: "blake2b:0123456789abcdef",
    text: `a  film\n${"x".repeat(80)}`,
    target: "positive (logit)",
    weight: "relevance",
    trace: "forward from “film”",
    filters: ["layers 1–3", "head 2.1"],
    coverage: 0.14,
    unit: "0–0.4% of what passes the layer in each layer, 99% goes past it",
  });
  expect(words).toBe(
    `whence · minilm@01234567 · “a film ${"x".repeat(52)}…” · target positive (logit) · edge weight relevance · ` +
      "forward from “film” · only: layers 1–3, head 2.1 · coverage 14% · shown 0–0.4% of what passes the layer in each layer, 99% goes past it",
  );
  expect(formatCaption({ model: "org/name", what: "entropy, one number per head" })).toBe(
    "whence · org/name · entropy, one number per head",
  );
});

it("wrapCaption: loses no word", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ minLength: 1 }).filter((word) => !/\s/.test(word))),
      fc.integer({ min: 40, max: 900 }),
      (words, width) => {
        expect(wrapCaption(words.join(" "), width).join(" ")).toBe(words.join(" "));
      },
    ),
  );
});

describe("encodePng", () => {
  function decoded(uri: string): { type: number; palette: Buffer | undefined; raw: Buffer } {
    const bytes = Buffer.from(uri.split(",")[1] ?? "", "base64");
    const chunks = new Map<string, Buffer>();
    for (let at = 8; at < bytes.length;) {
      const length = bytes.readUInt32BE(at);
      chunks.set(bytes.toString("latin1", at + 4, at + 8), bytes.subarray(at + 8, at + 8 + length));
      at += 12 + length;
    }
    return {
      type: chunks.get("IHDR")?.[9] ?? -1,
      palette: chunks.get("PLTE"),
      raw: inflateSync(chunks.get("IDAT") ?? Buffer.alloc(0)),
    };
  }

  it("few colours: written with a palette, and decoded equal", () => {
    const pixels = Uint8ClampedArray.from([255, 0, 0, 255, 0, 0, 255, 255, 255, 0, 0, 255, 9, 9, 9, 255]);
    const { type, palette, raw } = decoded(encodePng(pixels, 2, 2));
    expect(type).toBe(3);
    expect([...(palette ?? [])]).toEqual([255, 0, 0, 0, 0, 255, 9, 9, 9]);
    expect([...raw]).toEqual([0, 0, 1, 0, 0, 2]); // each row begins with its filter
  });

  it("many colours: written as RGBA, over several blocks", () => {
    const [columns, rows] = [150, 150]; // 90 150 bytes with filters: more than a block of 65 535
    const pixels = Uint8ClampedArray.from(
      { length: columns * rows * 4 },
      (_, i) => (i % 4 === 3 ? 255 : (i * 7919) >> (i % 5)) & 255,
    );
    const { type, raw } = decoded(encodePng(pixels, columns, rows));
    expect(type).toBe(6);
    expect(raw.length).toBe(rows * (columns * 4 + 1));
    expect([...raw.subarray(1, 1 + columns * 4)]).toEqual([...pixels.subarray(0, columns * 4)]);
  });

  it("chooseScale: 1 to 4, within the canvas limit", () => {
    expect(chooseScale(800, 600, 2)).toBe(2);
    expect(chooseScale(800, 600, 9)).toBe(4);
    expect(chooseScale(800, 600, 0)).toBe(1);
    expect(8000 * chooseScale(8000, 600, 4)).toBeLessThanOrEqual(16_000);
  });
});

describe("formatCsv", () => {
  it("quotes by RFC 4180, and defuses formulas as the Python side does", () => {
    const table = { columns: ["token", "flow"], rows: [['a "b", c', 0.5], ["=1+1", -2], ["-x", 1], ["@x", 1], ["\ttab", 1], ["two\nlines", 1], ["+", Number.NaN]] }; // prettier-ignore
    expect(formatCsv(table, "whence · reviews").split("\r\n")).toEqual([
      "# whence · reviews",
      "token,flow",
      '"a ""b"", c",0.5',
      "'=1+1,-2",
      "'-x,1",
      "'@x,1",
      "'\ttab,1",
      '"two\nlines",1',
      "'+,",
      "",
    ]);
    // A leading # is quoted, and a caption of two lines becomes two comments.
    expect(formatCsv({ columns: ["a"], rows: [["##ing"]] }, "one\ntwo")).toBe(
      '# one\r\n# two\r\na\r\n"##ing"\r\n',
    );
    expect(formatCsv({ columns: ["a"], rows: [["\n"]] }, "")).toBe('a\r\n"\'\n"\r\n');
  });
});

describe("text", () => {
  it("showInvisible: replaces invisible characters", () => {
    expect(HOSTILE.map(showInvisible).slice(3, 8)).toEqual([
      "‹202E›gnp.exe",
      "👩‍👩‍👧‍👦🏳️‍🌈",
      "‹200B›",
      "∅",
      "‹0000›‹D800›",
    ]);
    expect(showInvisible("\n\t")).toBe("⏎⇥");
    expect(showInvisible("  ")).toBe("␣␣");
    expect(showInvisible("نمی\u200cخواهم")).toBe("نمی\u200cخواهم");
    expect(showInvisible("\u200dx")).toBe("‹200D›x");
  });

  it("quoteToken: isolates a token in a sentence", () => {
    expect(quoteToken("שלום")).toBe("“\u2068שלום\u2069”");
  });

  it("shorten: cuts between graphemes", () => {
    expect(shorten("👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 2)).toBe("👩‍👩‍👧‍👦…");
    expect(shorten("short", 5)).toBe("short");
  });

  it("fitWidth: fits any text into any width", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 0, max: 300 }), (words, room) => {
        const cut = fitWidth(words, 12, room);
        expect(measureWidth(cut, 12)).toBeLessThanOrEqual(room + 1e-9);
        expect(cut === words || cut === "" || (cut.endsWith("…") && words.startsWith(cut.slice(0, -1)))).toBe(
          true,
        );
      }),
    );
  });

  it("formatSignificant: short numbers", () => {
    expect([0, 1, 0.123456, 1234567, 0.0000123, Number.NaN].map(formatSignificant)).toEqual([
      "0",
      "1",
      "0.123",
      "1.2e+6",
      "1.2e-5",
      "–",
    ]);
    expect([0, 0.0004, 0.042, 0.5, 0.996, null].map(formatShare)).toEqual([
      "0%",
      "<0.1%",
      "4.2%",
      "50%",
      "100%",
      "–",
    ]);
  });
});

describe("theme", () => {
  it.each([LIGHT, DARK])("chooseInk: sufficient contrast on every colour of every scale: $name", (theme) => {
    for (let i = -100; i <= 100; i++) {
      for (const colour of [
        theme.sequential(Math.abs(i) / 100),
        theme.signed(i / 100),
        theme.difference(i / 100),
      ]) {
        expect(computeContrast(colour, chooseInk(colour))).toBeGreaterThanOrEqual(4.5);
      }
    }
    for (const ink of [theme.ink, theme.dim, theme.accent])
      expect(computeContrast(ink, theme.paper)).toBeGreaterThanOrEqual(4.5);
    // Lines that carry meaning: WCAG asks for 3 to 1.
    for (const line of [theme.flow, theme.a, theme.b, theme.shared])
      expect(computeContrast(line, theme.paper)).toBeGreaterThanOrEqual(3);
  });

  it.each([LIGHT, DARK])("sequential scale: contrast to paper grows steadily: $name", (theme) => {
    const steps = Array.from({ length: 101 }, (_, i) =>
      computeContrast(theme.sequential(i / 100), theme.paper),
    );
    steps.slice(1).forEach((step, i) => expect(step).toBeGreaterThanOrEqual((steps[i] ?? 0) - 0.02));
    expect(theme.sequential(0)).toBe(theme.paper);
    expect(theme.signed(0)).toBe(theme.paper);
    expect(theme.difference(-1)).toBe(theme.a);
    expect(theme.difference(1)).toBe(theme.b);
  });
});

describe("createHitIndex", () => {
  const edge = (index: number, y: number): Mark => ({
    kind: "path",
    commands: [["M", 0, y], ["L", 200, y]], // prettier-ignore
    stroke: "#000000",
    strokeWidth: 1,
    hit: { kind: "edge", index },
  });
  const node: Mark = {
    kind: "path",
    commands: circle(100, 20, 6),
    fill: "#000000",
    hit: { kind: "token", token: 3, level: 0 },
  };

  it("finds the nearest line within reach, and an area before a line", () => {
    const index = createHitIndex(sceneOf([edge(0, 20), edge(1, 28), node]));
    expect(index.at(50, 21)?.hit).toEqual({ kind: "edge", index: 0 });
    expect(index.at(50, 26)?.hit).toEqual({ kind: "edge", index: 1 });
    expect(index.at(100, 22)?.hit).toEqual({ kind: "token", token: 3, level: 0 });
    expect(index.at(50, 60)).toBeNull();
    expect(index.marks).toHaveLength(3);
  });

  it("real picture: every edge is found somewhere along it", () => {
    const flow = selectVisible(readFixture("attention"), 0.3);
    const scene = VIEWS.ladder(flow, { width: 900, theme: LIGHT });
    const index = createHitIndex(scene);
    const result = new Set<number>();
    for (let x = 0; x < scene.width; x += 1) {
      for (let y = 0; y < scene.height; y += 1) {
        const hit = index.at(x, y)?.hit;
        if (hit?.kind === "edge") result.add(hit.index);
      }
    }
    expect([...result].sort((a, b) => a - b)).toEqual(scene.edges);
  });

  it("computeArc: agrees with the circle of the arc", () => {
    // A quarter of a circle around (0, 0), from (1, 0) to (0, 1), clockwise on the screen.
    const arc = computeArc(1, 0, 1, 0, 1, 0, 1);
    expect([arc.cx, arc.cy, arc.from, arc.to].map((value) => Math.round(value * 1e9) + 0)).toEqual([
      0,
      0,
      0,
      Math.round((Math.PI / 2) * 1e9),
    ]);
    const rest = computeArc(1, 0, 1, 1, 0, 0, 1);
    expect(rest.to - rest.from).toBeCloseTo((-3 * Math.PI) / 2, 9);
  });
});
