/** How long pictures take at the size the page promises: 512 tokens, 12 layers of 12 heads, 5000 edges. */

import { bench, describe } from "vitest";
import { shown } from "../src/flow/shown";
import { thumbnails } from "../src/render/headmap";
import { hitIndex } from "../src/render/hits";
import { matrix } from "../src/render/matrix";
import { svg } from "../src/render/svg";
import { LIGHT } from "../src/render/theme";
import { VIEWS } from "../src/render/views";
import { large } from "../test/flows";

const flow = large(512, 12, 12, 5000);
const short = large(40, 12, 12, 5000);
const wide = { width: 1200, theme: LIGHT };

describe("512 tokens, 5000 edges", () => {
  bench("shown", () => void shown(flow, 0.9));
  bench("shown, two flows", () => void shown(flow, 0.9, flow));
  for (const name of ["ladder", "sankey", "heatmap", "network"] as const) {
    bench(name, () => void VIEWS[name](shown(flow, 1), wide), { iterations: 3, time: 300 });
  }
  const scene = VIEWS.ladder(shown(flow, 1), wide);
  bench("ladder: first hover", () => void hitIndex(scene).at(600, 200), { iterations: 3, time: 300 });
  const index = hitIndex(scene);
  bench("ladder: hover", () => void index.at(600, 200));
  bench("ladder as SVG", () => void svg(scene, LIGHT, ""), { iterations: 3, time: 300 });
});

describe("40 tokens, 5000 edges", () => {
  bench("rings", () => void VIEWS.rings(shown(short, 1), wide), { iterations: 3, time: 300 });
});

describe("144 heads", () => {
  const pixels = new Uint8Array(144 * 48 * 48).fill(90);
  bench("thumbnails", () => void thumbnails({ layers: 12, heads: 12, size: 48, pixels }, wide), {
    iterations: 3,
    time: 300,
  });
  const values = new Float32Array(512 * 512).fill(1 / 512);
  bench("matrix of 512", () => void matrix({ values, tokens: flow.tokens, title: "" }, wide), {
    iterations: 3,
    time: 300,
  });
});
