/** Caption of an exported picture: formatted from model, input and settings, wrapped into lines, measured. */

import { formatShare, shorten, measureWidth } from "./text";

/** Fields of a caption. */
export interface CaptionFields {
  readonly model: string; // of a path, only the last part is printed
  readonly revision?: string | null;
  readonly fingerprint?: string | null; // used without a revision
  readonly text?: string | null;
  readonly target?: string | null;
  readonly what?: string | null; // such as "entropy of each head"
  readonly method?: string | null;
  readonly weight?: string | null;
  readonly trace?: string | null; // such as "back from the decision"
  readonly filters?: readonly string[];
  readonly coverage?: number | null;
  readonly unit?: string | null; // layer shares: edges and skip connection
  readonly date?: string | null; // printed as is
}

/** Format the fields as one line. */
export function formatCaption(facts: CaptionFields): string {
  const { text, target, what, method, weight, trace: way, filters = [], coverage, unit, date } = facts;
  const parts = [
    formatModel(facts),
    text && `“${shorten(text.replace(/\s+/gu, " ").trim(), 60)}”`,
    target && `target ${target}`,
    what,
    method && `method ${method}`,
    weight && `edge weight ${weight.replaceAll("_", " ")}`,
    way,
    filters.length > 0 && `only: ${filters.join(", ")}`,
    typeof coverage === "number" && `coverage ${formatShare(coverage)}`,
    unit && `shown ${unit}`,
    date,
  ];
  return `whence · ${parts.filter(Boolean).join(" · ")}`;
}

function formatModel({ model, revision, fingerprint }: CaptionFields): string {
  const name = model.replace(/[/\\]+$/, "");
  const isPath = /^([/\\.~]|[a-z]:[/\\])/iu.test(name);
  const short = isPath ? (name.split(/[/\\]/).at(-1) ?? name) : name;
  const version = revision || fingerprint?.replace(/^.*:/, "").slice(0, 8);
  return version ? `${short}@${version}` : short;
}

export const CAPTION_STYLE = { left: 8, size: 10 } as const;

/** Wrap a caption into lines; words are never cut. */
export function wrapCaption(caption: string, width: number, size: number = CAPTION_STYLE.size): string[] {
  const lines: string[] = [];
  for (const word of caption.split(" ").filter(Boolean)) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && measureWidth(longer, size) <= width - 2 * CAPTION_STYLE.left)
      lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Measure the height of wrapped lines. */
export function measureCaption(lines: readonly string[]): number {
  return lines.length ? CAPTION_STYLE.size * (1.4 * lines.length + 0.8) : 0;
}
