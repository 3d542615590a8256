/** Canvas renderer of a scene, and of the outline of one mark. */

import { computeArc } from "./geometry";
import type { Command, Image, Mark, Path, Rect, Scene, Text, Theme } from "./scene";
import { MONO, SANS } from "./svg";
import { measureWidth } from "./text";

export type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Paint a whole scene; `ratio` is the number of canvas pixels for one unit of the scene. */
export function paint(context: Context, scene: Scene, theme: Theme, ratio: number): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, scene.width, scene.height);
  for (const mark of scene.marks) paintMark(context, mark);
}

/** Draw the outline of one mark in the selection colour; the caller sets the transform. */
export function drawOutline(context: Context, mark: Mark, theme: Theme): void {
  context.save();
  context.strokeStyle = theme.accent;
  context.lineJoin = "round";
  switch (mark.kind) {
    case "rect":
    case "image":
      context.lineWidth = 2;
      context.strokeRect(mark.x - 1, mark.y - 1, mark.width + 2, mark.height + 2);
      break;
    case "path":
      context.lineWidth = mark.fill ? 2 : Math.max(2, mark.strokeWidth ?? 1);
      tracePath(context, mark.commands);
      context.stroke();
      break;
    case "text": {
      const width = measureWidth(mark.text, mark.size);
      const left = { start: 0, middle: -width / 2, end: -width }[mark.anchor ?? "start"];
      rotateText(context, mark);
      context.lineWidth = 1.5;
      context.strokeRect(mark.x + left - 3, mark.y - mark.size, width + 6, mark.size * 1.4);
    }
  }
  context.restore();
}

/** Paint one mark. */
export function paintMark(context: Context, mark: Mark): void {
  switch (mark.kind) {
    case "rect":
      return paintRect(context, mark);
    case "path":
      return paintPath(context, mark);
    case "text":
      return paintText(context, mark);
    case "image":
      return paintImage(context, mark);
  }
}

function paintRect(context: Context, mark: Rect): void {
  context.beginPath();
  if (mark.radius) context.roundRect(mark.x, mark.y, mark.width, mark.height, mark.radius);
  else context.rect(mark.x, mark.y, mark.width, mark.height);
  fillAndStroke(context, mark);
}

function paintPath(context: Context, mark: Path): void {
  tracePath(context, mark.commands);
  context.globalAlpha = mark.opacity ?? 1;
  if (mark.dash) context.setLineDash([...mark.dash]);
  fillAndStroke(context, mark);
  if (mark.dash) context.setLineDash([]);
  context.globalAlpha = 1;
}

function fillAndStroke(context: Context, mark: Rect | Path): void {
  if (mark.fill) {
    context.fillStyle = mark.fill;
    context.fill();
  }
  if (mark.stroke) {
    context.strokeStyle = mark.stroke;
    context.lineWidth = mark.strokeWidth ?? 1;
    context.stroke();
  }
}

function tracePath(context: Context, commands: readonly Command[]): void {
  context.beginPath();
  let [x, y] = [0, 0];
  for (const command of commands) {
    switch (command[0]) {
      case "M":
        context.moveTo(command[1], command[2]);
        [x, y] = [command[1], command[2]];
        break;
      case "L":
        context.lineTo(command[1], command[2]);
        [x, y] = [command[1], command[2]];
        break;
      case "C":
        context.bezierCurveTo(command[1], command[2], command[3], command[4], command[5], command[6]);
        [x, y] = [command[5], command[6]];
        break;
      case "A": {
        const arc = computeArc(x, y, command[1], command[4], command[5], command[6], command[7]);
        context.arc(arc.cx, arc.cy, arc.radius, arc.from, arc.to, command[5] === 0);
        [x, y] = [command[6], command[7]];
        break;
      }
      case "Z":
        context.closePath();
    }
  }
}

function rotateText(context: Context, mark: Text): void {
  if (!mark.rotate) return;
  context.translate(mark.x, mark.y);
  context.rotate((mark.rotate * Math.PI) / 180);
  context.translate(-mark.x, -mark.y);
}

function paintText(context: Context, mark: Text): void {
  context.save();
  rotateText(context, mark);
  context.font = `${mark.bold ? 600 : 400} ${mark.size}px ${mark.mono ? MONO : SANS}`;
  context.textAlign = ({ start: "left", middle: "center", end: "right" } as const)[mark.anchor ?? "start"];
  context.direction = "ltr";
  context.fillStyle = mark.fill;
  context.fillText(mark.text, mark.x, mark.y);
  context.restore();
}

function paintImage(context: Context, mark: Image): void {
  const small = createCanvas(mark.columns, mark.rows);
  const inner = small.getContext("2d") as Context | null;
  if (!inner) return;
  const data = inner.createImageData(mark.columns, mark.rows);
  data.data.set(mark.pixels);
  inner.putImageData(data, 0, 0);
  context.imageSmoothingEnabled = mark.smooth === true;
  context.drawImage(small, mark.x, mark.y, mark.width, mark.height);
}

/** Create a canvas outside of the document. */
export function createCanvas(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width));
  canvas.height = Math.max(1, Math.round(height));
  return canvas;
}
