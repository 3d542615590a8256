/** A display list: what a view draws, before anyone draws it. Views return one; a canvas, an SVG file and tests read it. */

export type Point = readonly [number, number];

/** Path commands, absolute: move, line, cubic Bézier, arc (SVG's), close. */
export type Command =
  | readonly ["M", number, number]
  | readonly ["L", number, number]
  | readonly ["C", number, number, number, number, number, number]
  | readonly ["A", number, number, number, 0 | 1, 0 | 1, number, number]
  | readonly ["Z"];

/** What the pointer or the keyboard finds at a mark. */
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

export interface Path extends Hittable {
  readonly kind: "path";
  readonly commands: readonly Command[];
  readonly fill?: string;
  readonly stroke?: string;
  readonly strokeWidth?: number;
  readonly dash?: readonly number[];
  readonly opacity?: number;
}

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

/** A picture of numbers: RGBA, row by row; what they are is to be seen, so nothing is smoothed unless it says so. */
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
  /** What the pointer finds at one of its numbers. */
  readonly cell?: (row: number, column: number) => Required<Hittable>;
}

export type Mark = Rect | Path | Text | Image;

/** A mark's one line, if it has one. */
export function titleOf({ title }: Mark): string | undefined {
  return typeof title === "function" ? title() : title;
}

/** The same picture for who cannot see it, and for CSV. */
export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
}

export interface Scene {
  readonly width: number;
  readonly height: number;
  readonly marks: readonly Mark[];
  readonly label: string; // one sentence for a screen reader
  readonly table: Table;
  /** Edges, by the index in the shown flow, that this picture draws: the same in every view of one flow. */
  readonly edges: readonly number[];
}

/** Colours of a picture; exports choose their own, whatever the page's theme. */
export interface Theme {
  readonly name: "light" | "dark";
  readonly paper: string;
  readonly ink: string;
  readonly dim: string;
  readonly rule: string;
  readonly accent: string; // what is selected
  readonly flow: string;
  readonly a: string; // the first of two models
  readonly b: string; // the second
  readonly shared: string;
  /** 0..1 to a colour (cividis; its root is taken before by whoever wants it). */
  readonly sequential: (share: number) => string;
  /** 0..1: paper to grey, for what has a size and no sign: neither the colour of "for" nor that of "against". */
  readonly neutral: (share: number) => string;
  /** -1..1: vermillion, paper, blue. */
  readonly signed: (value: number) => string;
  /** -1..1: orange (A) to purple (B), for differences of models. */
  readonly difference: (value: number) => string;
}
