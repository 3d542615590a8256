/** The line under an exported picture: what it shows, of which model, and what it hides. */

import { percent, widthOf } from "./text";

export interface Facts {
  readonly model: string;
  readonly revision?: string | null;
  readonly method?: string | null;
  readonly weight?: string | null;
  readonly coverage?: number | null;
  readonly hidden?: number | null; // share of the flow that is not shown
  readonly date?: string | null; // as it is to be printed
}

export function caption({ model, revision, method, weight, coverage, hidden, date }: Facts): string {
  const parts = [
    revision ? `${model}@${revision}` : model,
    method && `method ${method}`,
    weight && `edge weight ${weight.replaceAll("_", " ")}`,
    typeof coverage === "number" && `coverage ${percent(coverage)}`,
    typeof hidden === "number" && `hidden ${percent(hidden)} of the flow`,
    date,
  ];
  return `whence · ${parts.filter(Boolean).join(" · ")}`;
}

export const CAPTION = { left: 8, size: 10 } as const;

/** The caption in lines that fit; a word is never cut. */
export function captionLines(caption: string, width: number, size: number = CAPTION.size): string[] {
  const lines: string[] = [];
  for (const word of caption.split(" ").filter(Boolean)) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && widthOf(longer, size) <= width - 2 * CAPTION.left) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

export function captionHeight(lines: readonly string[]): number {
  return lines.length ? CAPTION.size * (1.4 * lines.length + 0.8) : 0;
}
