/** A scene on a canvas, and the outline of one mark on another above it. */

import { arcOf } from "./geometry";
import type { Command, Image, Mark, Path, Rect, Scene, Text, Theme } from "./scene";
import { MONO, SANS } from "./svg";
import { widthOf } from "./text";

export type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Paint a whole scene; `ratio` is how many pixels of the canvas one unit of the scene takes. */
export function paint(context: Context, scene: Scene, theme: Theme, ratio: number): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, scene.width, scene.height);
  for (const mark of scene.marks) paintMark(context, mark);
}

/** Draw around one mark, in the colour of what is selected. The transform is the caller's. */
export function outline(context: Context, mark: Mark, theme: Theme): void {
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
      trace(context, mark.commands);
      context.stroke();
      break;
    case "text": {
      const width = widthOf(mark.text, mark.size);
      const left = { start: 0, middle: -width / 2, end: -width }[mark.anchor ?? "start"];
      turn(context, mark);
      context.lineWidth = 1.5;
      context.strokeRect(mark.x + left - 3, mark.y - mark.size, width + 6, mark.size * 1.4);
    }
  }
  context.restore();
}

export function paintMark(context: Context, mark: Mark): void {
  switch (mark.kind) {
    case "rect":
      return rect(context, mark);
    case "path":
      return path(context, mark);
    case "text":
      return words(context, mark);
    case "image":
      return image(context, mark);
  }
}

function rect(context: Context, mark: Rect): void {
  context.beginPath();
  if (mark.radius) context.roundRect(mark.x, mark.y, mark.width, mark.height, mark.radius);
  else context.rect(mark.x, mark.y, mark.width, mark.height);
  fillAndStroke(context, mark);
}

function path(context: Context, mark: Path): void {
  trace(context, mark.commands);
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

function trace(context: Context, commands: readonly Command[]): void {
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
        const arc = arcOf(x, y, command[1], command[4], command[5], command[6], command[7]);
        context.arc(arc.cx, arc.cy, arc.radius, arc.from, arc.to, command[5] === 0);
        [x, y] = [command[6], command[7]];
        break;
      }
      case "Z":
        context.closePath();
    }
  }
}

function turn(context: Context, mark: Text): void {
  if (!mark.rotate) return;
  context.translate(mark.x, mark.y);
  context.rotate((mark.rotate * Math.PI) / 180);
  context.translate(-mark.x, -mark.y);
}

function words(context: Context, mark: Text): void {
  context.save();
  turn(context, mark);
  context.font = `${mark.bold ? 600 : 400} ${mark.size}px ${mark.mono ? MONO : SANS}`;
  context.textAlign = ({ start: "left", middle: "center", end: "right" } as const)[mark.anchor ?? "start"];
  context.direction = "ltr";
  context.fillStyle = mark.fill;
  context.fillText(mark.text, mark.x, mark.y);
  context.restore();
}

function image(context: Context, mark: Image): void {
  const small = blank(mark.columns, mark.rows);
  const inner = small.getContext("2d") as Context | null;
  if (!inner) return;
  const data = inner.createImageData(mark.columns, mark.rows);
  data.data.set(mark.pixels);
  inner.putImageData(data, 0, 0);
  context.imageSmoothingEnabled = mark.smooth === true;
  context.drawImage(small, mark.x, mark.y, mark.width, mark.height);
}

/** A canvas that nobody sees. */
export function blank(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width));
  canvas.height = Math.max(1, Math.round(height));
  return canvas;
}
