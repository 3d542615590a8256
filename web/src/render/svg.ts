/** A scene as an SVG file: the same scene gives the same bytes. */

import { captionLines, captionHeight, CAPTION } from "./caption";
import { pngOf } from "./pixels";
import { type Command, type Mark, type Scene, type Theme, titleOf } from "./scene";

export const SANS = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
export const MONO = "ui-monospace, 'Cascadia Mono', 'DejaVu Sans Mono', monospace";

export function svg(scene: Scene, theme: Theme, caption: string): string {
  const lines = captionLines(caption, scene.width);
  const width = number(scene.width);
  const height = number(scene.height + captionHeight(lines));
  const words = lines.map((words, i) => {
    const y = number(scene.height + CAPTION.size * (i * 1.4 + 1.2));
    return `<text x="${CAPTION.left}" y="${y}" font-size="${CAPTION.size}" fill="${theme.dim}">${escaped(words)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="whence-label" font-family="${SANS}">`,
    `<title id="whence-label">${escaped(scene.label)}</title>`,
    `<metadata>${escaped(caption)}</metadata>`,
    `<rect width="100%" height="100%" fill="${theme.paper}"/>`,
    ...scene.marks.map(element),
    ...words,
    "</svg>",
    "",
  ].join("\n");
}

/** Text that no reader of XML takes for anything else; what XML cannot hold becomes a replacement character. */
export function escaped(text: string): string {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Cs}/gu, "\ufffd")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;")
    .replace(/'/g, "&#39;");
}

function element(mark: Mark): string {
  const [open, body] = shape(mark);
  const words = titleOf(mark);
  const title = words === undefined ? "" : `<title>${escaped(words)}</title>`;
  const inner = title + body;
  const data = mark.hit?.kind === "edge" ? ` data-edge="${mark.hit.index}"` : "";
  const tag = open.slice(0, open.indexOf(" "));
  return inner ? `<${open}${data}>${inner}</${tag}>` : `<${open}${data}/>`;
}

function shape(mark: Mark): [open: string, body: string] {
  switch (mark.kind) {
    case "rect":
      return [`rect ${box(mark)}${optional("rx", mark.radius)}${painted(mark)}`, ""];
    case "path": {
      const dash = mark.dash?.length ? ` stroke-dasharray="${mark.dash.map(number).join(" ")}"` : "";
      const d = mark.commands.map(command).join("");
      return [`path d="${d}"${painted(mark)}${dash}${optional("opacity", mark.opacity)}`, ""];
    }
    case "text": {
      const anchor = mark.anchor && mark.anchor !== "start" ? ` text-anchor="${mark.anchor}"` : "";
      const [x, y] = [number(mark.x), number(mark.y)];
      const turn = mark.rotate ? ` transform="rotate(${number(mark.rotate)} ${x} ${y})"` : "";
      const face = `${mark.bold ? ' font-weight="600"' : ""}${mark.mono ? ` font-family="${MONO}"` : ""}`;
      const open = `text x="${x}" y="${y}" font-size="${number(mark.size)}" fill="${mark.fill}"${anchor}${turn}${face}`;
      return [open, escaped(mark.text)];
    }
    case "image": {
      const data = pngOf(mark.pixels, mark.columns, mark.rows);
      const drawn = mark.smooth ? "" : ' style="image-rendering:pixelated"';
      const open = `image ${box(mark)} preserveAspectRatio="none"${drawn} href="${data}"`;
      return [open, ""];
    }
  }
}

function box(mark: { x: number; y: number; width: number; height: number }): string {
  return `x="${number(mark.x)}" y="${number(mark.y)}" width="${number(mark.width)}" height="${number(mark.height)}"`;
}

function painted(mark: { fill?: string; stroke?: string; strokeWidth?: number }): string {
  const stroke = mark.stroke
    ? ` stroke="${mark.stroke}" stroke-width="${number(mark.strokeWidth ?? 1)}"`
    : "";
  return ` fill="${mark.fill ?? "none"}"${stroke}`;
}

function optional(name: string, value: number | undefined): string {
  return value === undefined ? "" : ` ${name}="${number(value)}"`;
}

function command([letter, ...values]: Command): string {
  return letter + values.map(number).join(" ");
}

/** Hundredths of a pixel: enough for any print, and the same on every machine. */
function number(value: number): string {
  const rounded = Math.round(value * 100) / 100;
  return Object.is(rounded, -0) ? "0" : String(rounded);
}
