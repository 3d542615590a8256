/** Benchmarks of the pictures at the promised size: 512 tokens, 12 layers of 12 heads, 5000 edges. */

import { bench, describe } from "vitest";
import { selectVisible } from "../src/flow/visibleFlow";
import { drawThumbnails } from "../src/render/headGrid";
import { createHitIndex } from "../src/render/hitIndex";
import { drawMatrix } from "../src/render/matrix";
import { renderSvg } from "../src/render/svg";
import { LIGHT } from "../src/render/theme";
import { VIEWS } from "../src/render/views";
import { makeLargeFlow } from "../test/flows";

const flow = makeLargeFlow(512, 12, 12, 5000);
const short = makeLargeFlow(40, 12, 12, 5000);
const wide = { width: 1200, theme: LIGHT };

describe("512 tokens, 5000 edges", () => {
  bench("selectVisible", () => void selectVisible(flow, 0.9));
  bench("shown, two flows", () => void selectVisible(flow, 0.9, flow));
  for (const name of ["ladder", "sankey", "heatmap", "network"] as const) {
    bench(name, () => void VIEWS[name](selectVisible(flow, 1), wide), { iterations: 3, time: 300 });
  }
  const scene = VIEWS.ladder(selectVisible(flow, 1), wide);
  bench("ladder: first hover", () => void createHitIndex(scene).at(600, 200), { iterations: 3, time: 300 });
  const index = createHitIndex(scene);
  bench("ladder: hover", () => void index.at(600, 200));
  bench("ladder as SVG", () => void renderSvg(scene, LIGHT, ""), { iterations: 3, time: 300 });
});

describe("40 tokens, 5000 edges", () => {
  bench("rings", () => void VIEWS.rings(selectVisible(short, 1), wide), { iterations: 3, time: 300 });
});

describe("144 heads", () => {
  const pixels = new Uint8Array(144 * 48 * 48).fill(90);
  bench("thumbnails", () => void drawThumbnails({ layers: 12, heads: 12, size: 48, pixels }, wide), {
    iterations: 3,
    time: 300,
  });
  const values = new Float32Array(512 * 512).fill(1 / 512);
  bench("matrix of 512", () => void drawMatrix({ values, tokens: flow.tokens, title: "" }, wide), {
    iterations: 3,
    time: 300,
  });
});
