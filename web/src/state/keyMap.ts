/** Table of keyboard shortcuts with their help texts, and the match of a key event to its action. */

export type Action =
  | "token-before"
  | "token-after"
  | "layer-up"
  | "layer-down"
  | "head-before"
  | "head-after"
  | "pin"
  | "unpin"
  | "trace-back"
  | "trace-forward"
  | "coverage-more"
  | "coverage-less"
  | "specials"
  | "words"
  | "method"
  | "difference"
  | "swap"
  | "view"
  | "verify"
  | "export"
  | "link"
  | "query"
  | "help";

/** Keys of one action, with their label and description. */
export interface Key {
  readonly keys: readonly string[]; // values of KeyboardEvent.key
  readonly label: string;
  readonly action: Action;
  readonly words: string;
}

export const KEYS: readonly Key[] = [
  { keys: ["ArrowLeft"], label: "←", action: "token-before", words: "the word before" },
  { keys: ["ArrowRight"], label: "→", action: "token-after", words: "the word after" },
  { keys: ["ArrowUp"], label: "↑", action: "layer-up", words: "a layer deeper" },
  { keys: ["ArrowDown"], label: "↓", action: "layer-down", words: "a layer nearer to the input" },
  { keys: ["["], label: "[", action: "head-before", words: "the head before" },
  { keys: ["]"], label: "]", action: "head-after", words: "the head after" },
  {
    keys: ["Enter"],
    label: "Enter",
    action: "pin",
    words: "pin what has the focus: trace through that word",
  },
  {
    keys: ["Escape"],
    label: "Esc",
    action: "unpin",
    words: "unpin everything: the edge, the head, the words",
  },
  { keys: ["t"], label: "t", action: "trace-back", words: "trace back from the decision" },
  { keys: ["f"], label: "f", action: "trace-forward", words: "trace forward from the word" },
  { keys: ["+", "="], label: "+", action: "coverage-more", words: "more of the flow" },
  { keys: ["-", "−"], label: "−", action: "coverage-less", words: "less of the flow" },
  { keys: ["s"], label: "s", action: "specials", words: "special tokens: gutter, drawn, hidden" },
  { keys: ["w"], label: "w", action: "words", words: "words or tokens" },
  {
    keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
    label: "1 … 9",
    action: "method",
    words: "the method of that number",
  },
  { keys: ["d"], label: "d", action: "difference", words: "in a comparison: differences or sets" },
  { keys: ["x"], label: "x", action: "swap", words: "in a comparison: swap the models" },
  { keys: ["r"], label: "r", action: "view", words: "ladder or rings" },
  { keys: ["v"], label: "v", action: "verify", words: "verify the path" },
  { keys: ["e"], label: "e", action: "export", words: "export the flow picture" },
  { keys: ["l"], label: "l", action: "link", words: "copy the link" },
  { keys: ["/"], label: "/", action: "query", words: "to the query box" },
  { keys: ["?"], label: "?", action: "help", words: "help" },
];

/** Action of a pressed key. */
export interface KeyPress {
  readonly action: Action;
  readonly key: string;
}

/**
 * Find the action of a key event; null while a field has the key, or outside of `root`, where keys belong to
 * the document around it.
 */
export function matchKey(event: KeyboardEvent, root?: Node): KeyPress | null {
  if (root && !(event.target instanceof Node && root.contains(event.target))) return null;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return null;
  if (isFieldKey(event.key, event.target)) return null;
  const match = KEYS.find(({ keys }) => keys.includes(event.key));
  return match ? { action: match.action, key: event.key } : null;
}

const ARROWS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]);
const NAVIGATION_ROLES = "[role='listbox'], [role='region'], [role='tablist'], [role='grid']";

function isFieldKey(key: string, target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  if (target.closest("textarea, select, [contenteditable='true']")) return true;
  const input = target.closest("input");
  if (input && !/^(range|checkbox|radio|button)$/.test(input.type)) return true;
  if (key === "Enter") return target.closest(`button, a, summary, input, ${NAVIGATION_ROLES}`) !== null;
  return ARROWS.has(key) && target.closest(`input, ${NAVIGATION_ROLES}`) !== null;
}
