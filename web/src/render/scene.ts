/** Scene: the display list of a view. Views build one; canvas, SVG and tests read it. */

export type Point = readonly [number, number];

/** Path commands, absolute: move, line, cubic Bézier, arc (SVG's), close. */
export type Command =
  | readonly ["M", number, number]
  | readonly ["L", number, number]
  | readonly ["C", number, number, number, number, number, number]
  | readonly ["A", number, number, number, 0 | 1, 0 | 1, number, number]
  | readonly ["Z"];

/** Target of pointer or keyboard at a mark. */
export type Hit =
  | { readonly kind: "edge"; readonly index: number }
  | { readonly kind: "token"; readonly token: number; readonly level: number }
  | { readonly kind: "head"; readonly layer: number; readonly head: number }
  | { readonly kind: "cell"; readonly row: number; readonly column: number };

interface Hittable {
  readonly hit?: Hit;
  /** One line, shown beside the pointer and written into SVG files; of thousands, written when one is read. */
  readonly title?: string | (() => string);
}

/** Rectangle. */
export interface Rect extends Hittable {
  readonly kind: "rect";
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly fill?: string;
  readonly stroke?: string;
  readonly strokeWidth?: number;
  readonly radius?: number;
}

/** Path of commands. */
export interface Path extends Hittable {
  readonly kind: "path";
  readonly commands: readonly Command[];
  readonly fill?: string;
  readonly stroke?: string;
  readonly strokeWidth?: number;
  readonly dash?: readonly number[];
  readonly opacity?: number;
}

/** Line of text. */
export interface Text extends Hittable {
  readonly kind: "text";
  readonly x: number;
  readonly y: number;
  readonly text: string;
  readonly size: number;
  readonly fill: string;
  readonly anchor?: "start" | "middle" | "end";
  readonly rotate?: number; // degrees, around (x, y)
  readonly bold?: boolean;
  readonly mono?: boolean;
}

/** Image of numbers, RGBA row by row; not smoothed unless `smooth`, so that cells stay visible. */
export interface Image extends Hittable {
  readonly kind: "image";
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly columns: number;
  readonly rows: number;
  readonly pixels: Uint8ClampedArray;
  readonly smooth?: boolean; // a photograph rather than numbers
  /** Hit and title of one cell. */
  readonly cell?: (row: number, column: number) => Required<Hittable>;
}

export type Mark = Rect | Path | Text | Image;

/** Return the title of a mark; some are computed on demand. */
export function getTitle({ title }: Mark): string | undefined {
  return typeof title === "function" ? title() : title;
}

/** Data of a scene as a table, for screen readers and CSV. */
export interface TableData {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
}

/** Size, marks, description and data of a picture. */
export interface Scene {
  readonly width: number;
  readonly height: number;
  readonly marks: readonly Mark[];
  readonly label: string; // one sentence for a screen reader
  readonly table: TableData;
  /** Edges, by the index in the shown flow, that this picture draws: the same in every view of one flow. */
  readonly edges: readonly number[];
}

/** Colours of a picture; an export may use another theme than the page. */
export interface Theme {
  readonly name: "light" | "dark";
  readonly paper: string;
  readonly ink: string;
  readonly dim: string;
  readonly rule: string;
  readonly accent: string; // colour of the selection
  readonly flow: string;
  readonly a: string; // the first of two models
  readonly b: string; // the second
  readonly shared: string;
  /** 0..1 to a colour (cividis); callers take the square root themselves. */
  readonly sequential: (share: number) => string;
  /** 0..1: paper to grey, for magnitudes without a sign: neither the colour of "for" nor of "against". */
  readonly neutral: (share: number) => string;
  /** -1..1: vermillion, paper, blue. */
  readonly signed: (value: number) => string;
  /** -1..1: orange (A) to purple (B), for differences of models. */
  readonly difference: (value: number) => string;
}
