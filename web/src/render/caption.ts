/** The line under an exported picture: what it shows, of which model, and what it hides. */

import { percent, shorten, widthOf } from "./text";

export interface Facts {
  readonly model: string; // of a path, the last part is printed
  readonly revision?: string | null;
  readonly fingerprint?: string | null; // where there is no revision
  readonly text?: string | null;
  readonly target?: string | null;
  readonly what?: string | null; // such as "entropy of each head"
  readonly method?: string | null;
  readonly weight?: string | null;
  readonly way?: string | null; // such as "back from the decision"
  readonly filters?: readonly string[];
  readonly coverage?: number | null;
  readonly unit?: string | null; // what the edges carry of the unit that set out, and what goes past
  readonly date?: string | null; // as it is to be printed
}

export function caption(facts: Facts): string {
  const { text, target, what, method, weight, way, filters = [], coverage, unit, date } = facts;
  const parts = [
    named(facts),
    text && `“${shorten(text.replace(/\s+/gu, " ").trim(), 60)}”`,
    target && `target ${target}`,
    what,
    method && `method ${method}`,
    weight && `edge weight ${weight.replaceAll("_", " ")}`,
    way,
    filters.length > 0 && `only: ${filters.join(", ")}`,
    typeof coverage === "number" && `coverage ${percent(coverage)}`,
    unit && `shown ${unit}`,
    date,
  ];
  return `whence · ${parts.filter(Boolean).join(" · ")}`;
}

function named({ model, revision, fingerprint }: Facts): string {
  const name = model.replace(/[/\\]+$/, "");
  const isPath = /^([/\\.~]|[a-z]:[/\\])/iu.test(name);
  const short = isPath ? (name.split(/[/\\]/).at(-1) ?? name) : name;
  const version = revision || fingerprint?.replace(/^.*:/, "").slice(0, 8);
  return version ? `${short}@${version}` : short;
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
