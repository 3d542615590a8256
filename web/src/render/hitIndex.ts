/** Hit index of a scene: finds the mark under the pointer, by horizontal bands and shape distances. */

import { boundPathPoints, measureDistance, isInside, tracePathPoints } from "./geometry";
import type { Image, Mark, Point, Scene } from "./scene";
import { measureWidth } from "./text";

/** Index that finds the mark at a point. */
export interface HitIndex {
  at(x: number, y: number): Mark | null;
  readonly marks: readonly Mark[]; // those with a hit, in reading order
}

const BAND = 24;
const REACH = 5; // tolerance beside a thin line, pixels

interface Shape {
  readonly mark: Mark;
  readonly place: number; // in painting order
  readonly isArea: boolean;
  readonly half: number; // half of the stroke's width
  readonly corners: readonly Point[]; // corners of a bounding polygon
  readonly outline: () => readonly Point[];
}

/** Index a scene; the bands are built at the first lookup. */
export function createHitIndex(scene: Scene): HitIndex {
  const marks = scene.marks.filter((mark) => mark.hit !== undefined && mark.kind !== "image");
  let bands: Map<number, BoxedShape[]> | null = null;
  return {
    marks,
    at(x, y) {
      bands ??= buildBands(scene);
      const near = (bands.get(Math.floor(y / BAND)) ?? []).filter(
        ({ left, right, top, bottom }) => x >= left && x <= right && y >= top && y <= bottom,
      );
      return findNearest(near.map(({ shape }) => shape), x, y); // prettier-ignore
    },
  };
}

interface BoxedShape {
  readonly shape: Shape;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

function buildBands(scene: Scene): Map<number, BoxedShape[]> {
  const bands = new Map<number, BoxedShape[]>();
  scene.marks.forEach((mark, place) => {
    if (mark.hit === undefined && !(mark.kind === "image" && mark.cell)) return;
    const box = boundShape(buildShape(mark, place));
    for (let band = Math.floor(box.top / BAND); band <= Math.floor(box.bottom / BAND); band++) {
      const result = bands.get(band);
      if (result) result.push(box);
      else bands.set(band, [box]);
    }
  });
  return bands;
}

function boundShape(shape: Shape): BoxedShape {
  const reach = shape.isArea ? 0 : shape.half + REACH;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of shape.corners) {
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < top) top = y;
    if (y > bottom) bottom = y;
  }
  return { shape, left: left - reach, right: right + reach, top: top - reach, bottom: bottom + reach };
}

function buildShape(mark: Mark, place: number): Shape {
  if (mark.kind === "path") {
    const half = (mark.strokeWidth ?? 1) / 2;
    let outline: Point[] | null = null;
    const points = (): readonly Point[] => (outline ??= tracePathPoints(mark.commands));
    return {
      mark,
      place,
      isArea: mark.fill !== undefined,
      half,
      corners: boundPathPoints(mark.commands),
      outline: points,
    };
  }
  const corners = mark.kind === "text" ? listTextCorners(mark) : listRectCorners(mark);
  return { mark, place, isArea: true, half: 0, corners, outline: () => corners };
}

function listRectCorners({
  x,
  y,
  width,
  height,
}: {
  x: number;
  y: number;
  width: number;
  height: number;
}): Point[] {
  return [[x, y], [x + width, y], [x + width, y + height], [x, y + height]]; // prettier-ignore
}

function listTextCorners(mark: Extract<Mark, { kind: "text" }>): Point[] {
  const width = measureWidth(mark.text, mark.size);
  const left = { start: 0, middle: -width / 2, end: -width }[mark.anchor ?? "start"];
  const [up, down] = [-mark.size, mark.size * 0.35];
  const angle = ((mark.rotate ?? 0) * Math.PI) / 180;
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const corners = [[left, up], [left + width, up], [left + width, down], [left, down]] as const; // prettier-ignore
  return corners.map(([x, y]) => [mark.x + x * cos - y * sin, mark.y + x * sin + y * cos]);
}

/** Find the mark at a point: an area that contains it, the uppermost first, else the nearest line. */
function findNearest(shapes: readonly Shape[], x: number, y: number): Mark | null {
  let area: Shape | null = null;
  let line: Shape | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const shape of shapes) {
    if (shape.isArea) {
      if ((!area || shape.place > area.place) && isInside(x, y, shape.outline())) area = shape;
      continue;
    }
    const away = Math.max(0, measureGap(x, y, shape.outline()) - shape.half);
    if (away > REACH || away > least || (away === least && line && line.place > shape.place)) continue;
    [line, least] = [shape, away];
  }
  if (area && (!line || area.place > line.place || least > 0))
    return area.mark.kind === "image" ? findCell(area.mark, x, y) : area.mark;
  return line?.mark ?? null;
}

function measureGap(x: number, y: number, outline: readonly Point[]): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 1; i < outline.length; i++) {
    const [a, b] = [outline[i - 1], outline[i]];
    if (a && b) least = Math.min(least, measureDistance(x, y, a, b));
  }
  return least;
}

/** Return the cell of an image at a point, as a mark of its own. */
function findCell(image: Image, x: number, y: number): Mark {
  if (!image.cell) return image;
  const [width, height] = [image.width / image.columns, image.height / image.rows];
  const column = Math.min(image.columns - 1, Math.max(0, Math.floor((x - image.x) / width)));
  const row = Math.min(image.rows - 1, Math.max(0, Math.floor((y - image.y) / height)));
  return {
    kind: "rect",
    x: image.x + column * width,
    y: image.y + row * height,
    width,
    height,
    ...image.cell(row, column),
  };
}
