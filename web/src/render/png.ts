/** A scene as a PNG file, with its caption under it. */

import { CAPTION, captionHeight, captionLines } from "./caption";
import { blank, paint, paintMark } from "./canvas";
import { text } from "./marks";
import type { Scene, Theme } from "./scene";

// Browsers refuse larger canvases, some of them without a word.
const SIDE = 16_000;
const AREA = 100_000_000;

export function png(scene: Scene, theme: Theme, caption: string, scale: number): Blob {
  const lines = captionLines(caption, scene.width);
  const height = scene.height + captionHeight(lines);
  const ratio = scaleFor(scene.width, height, scale);
  const canvas = blank(scene.width * ratio, height * ratio);
  const context = canvas.getContext("2d");
  if (!context) throw new Error("This browser gives no canvas to draw on. Export SVG instead.");
  paint(context, { ...scene, height }, theme, ratio);
  lines.forEach((words, i) => {
    paintMark(
      context,
      text(CAPTION.left, scene.height + CAPTION.size * (i * 1.4 + 1.2), words, theme, { size: CAPTION.size }),
    );
  });
  // Not toBlob: Chromium encodes there when it has nothing better to do, which may be seconds later.
  const [, data = ""] = canvas.toDataURL("image/png").split(",");
  if (data === "") throw new Error("The picture is too large for this browser. Export SVG instead.");
  return new Blob([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], { type: "image/png" });
}

/** One to four times, and less where the browser could not hold it. */
export function scaleFor(width: number, height: number, wanted: number): number {
  const most = Math.min(SIDE / Math.max(width, height), Math.sqrt(AREA / (width * height)));
  return Math.min(Math.max(1, Math.min(4, wanted)), most);
}
