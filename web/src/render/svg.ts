/** SVG export of a scene; the same scene gives the same bytes. */

import { wrapCaption, measureCaption, CAPTION_STYLE } from "./caption";
import { encodePng } from "./pixels";
import { type Command, type Mark, type Scene, type Theme, getTitle } from "./scene";

export const SANS = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
export const MONO = "ui-monospace, 'Cascadia Mono', 'DejaVu Sans Mono', monospace";

/** Render a scene and its caption as SVG. */
export function renderSvg(scene: Scene, theme: Theme, caption: string): string {
  const lines = wrapCaption(caption, scene.width);
  const width = formatNumber(scene.width);
  const height = formatNumber(scene.height + measureCaption(lines));
  const words = lines.map((words, i) => {
    const y = formatNumber(scene.height + CAPTION_STYLE.size * (i * 1.4 + 1.2));
    return `<text x="${CAPTION_STYLE.left}" y="${y}" font-size="${CAPTION_STYLE.size}" fill="${theme.dim}">${escapeXml(words)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="whence-label" font-family="${SANS}">`,
    `<title id="whence-label">${escapeXml(scene.label)}</title>`,
    `<metadata>${escapeXml(caption)}</metadata>`,
    `<rect width="100%" height="100%" fill="${theme.paper}"/>`,
    ...scene.marks.map(formatElement),
    ...words,
    "</svg>",
    "",
  ].join("\n");
}

/** Escape text for XML; characters that XML cannot hold become U+FFFD. */
export function escapeXml(text: string): string {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Cs}/gu, "\ufffd")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;")
    .replace(/'/g, "&#39;");
}

function formatElement(mark: Mark): string {
  const [open, body] = formatShape(mark);
  const words = getTitle(mark);
  const title = words === undefined ? "" : `<title>${escapeXml(words)}</title>`;
  const inner = title + body;
  const data = mark.hit?.kind === "edge" ? ` data-edge="${mark.hit.index}"` : "";
  const tag = open.slice(0, open.indexOf(" "));
  return inner ? `<${open}${data}>${inner}</${tag}>` : `<${open}${data}/>`;
}

function formatShape(mark: Mark): [open: string, body: string] {
  switch (mark.kind) {
    case "rect":
      return [`rect ${formatBox(mark)}${formatOptional("rx", mark.radius)}${formatPaint(mark)}`, ""];
    case "path": {
      const dash = mark.dash?.length ? ` stroke-dasharray="${mark.dash.map(formatNumber).join(" ")}"` : "";
      const d = mark.commands.map(formatCommand).join("");
      return [`path d="${d}"${formatPaint(mark)}${dash}${formatOptional("opacity", mark.opacity)}`, ""];
    }
    case "text": {
      const anchor = mark.anchor && mark.anchor !== "start" ? ` text-anchor="${mark.anchor}"` : "";
      const [x, y] = [formatNumber(mark.x), formatNumber(mark.y)];
      const turn = mark.rotate ? ` transform="rotate(${formatNumber(mark.rotate)} ${x} ${y})"` : "";
      const face = `${mark.bold ? ' font-weight="600"' : ""}${mark.mono ? ` font-family="${MONO}"` : ""}`;
      const open = `text x="${x}" y="${y}" font-size="${formatNumber(mark.size)}" fill="${mark.fill}"${anchor}${turn}${face}`;
      return [open, escapeXml(mark.text)];
    }
    case "image": {
      const data = encodePng(mark.pixels, mark.columns, mark.rows);
      const drawn = mark.smooth ? "" : ' style="image-rendering:pixelated"';
      const open = `image ${formatBox(mark)} preserveAspectRatio="none"${drawn} href="${data}"`;
      return [open, ""];
    }
  }
}

function formatBox(mark: { x: number; y: number; width: number; height: number }): string {
  return `x="${formatNumber(mark.x)}" y="${formatNumber(mark.y)}" width="${formatNumber(mark.width)}" height="${formatNumber(mark.height)}"`;
}

function formatPaint(mark: { fill?: string; stroke?: string; strokeWidth?: number }): string {
  const stroke = mark.stroke
    ? ` stroke="${mark.stroke}" stroke-width="${formatNumber(mark.strokeWidth ?? 1)}"`
    : "";
  return ` fill="${mark.fill ?? "none"}"${stroke}`;
}

function formatOptional(name: string, value: number | undefined): string {
  return value === undefined ? "" : ` ${name}="${formatNumber(value)}"`;
}

function formatCommand([letter, ...values]: Command): string {
  return letter + values.map(formatNumber).join(" ");
}

/** Format to hundredths of a pixel: enough for print, and the same on every machine. */
function formatNumber(value: number): string {
  const rounded = Math.round(value * 100) / 100;
  return Object.is(rounded, -0) ? "0" : String(rounded);
}
