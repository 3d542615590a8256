/** PNG export of a scene, with its caption. */

import { CAPTION_STYLE, measureCaption, wrapCaption } from "./caption";
import { createCanvas, paint, paintMark } from "./canvas";
import { text } from "./marks";
import type { Scene, Theme } from "./scene";

// Browsers refuse larger canvases, some of them silently.
const SIDE = 16_000;
const AREA = 100_000_000;

/** Render a scene and its caption as a PNG. */
export function renderPng(scene: Scene, theme: Theme, caption: string, scale: number): Blob {
  const lines = wrapCaption(caption, scene.width);
  const height = scene.height + measureCaption(lines);
  const ratio = chooseScale(scene.width, height, scale);
  const canvas = createCanvas(scene.width * ratio, height * ratio);
  const context = canvas.getContext("2d");
  if (!context) throw new Error("This browser gives no canvas to draw on. Export SVG instead.");
  paint(context, { ...scene, height }, theme, ratio);
  lines.forEach((words, i) => {
    paintMark(
      context,
      text(CAPTION_STYLE.left, scene.height + CAPTION_STYLE.size * (i * 1.4 + 1.2), words, theme, {
        size: CAPTION_STYLE.size,
      }),
    );
  });
  // Not toBlob: Chromium encodes it when idle, which may be seconds later.
  const [, data = ""] = canvas.toDataURL("image/png").split(",");
  if (data === "") throw new Error("The picture is too large for this browser. Export SVG instead.");
  return new Blob([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], { type: "image/png" });
}

/** Choose a scale of 1 to 4, less where the canvas would exceed the browser's limit. */
export function chooseScale(width: number, height: number, requested: number): number {
  const most = Math.min(SIDE / Math.max(width, height), Math.sqrt(AREA / (width * height)));
  return Math.min(Math.max(1, Math.min(4, requested)), most);
}
