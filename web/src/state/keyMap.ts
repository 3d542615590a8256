/** The keyboard map: one table for the handler, the help page and the tests. */

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

export interface Key {
  readonly keys: readonly string[]; // as KeyboardEvent.key has them
  readonly shown: string;
  readonly action: Action;
  readonly words: string;
}

export const KEYS: readonly Key[] = [
  { keys: ["ArrowLeft"], shown: "←", action: "token-before", words: "the word before" },
  { keys: ["ArrowRight"], shown: "→", action: "token-after", words: "the word after" },
  { keys: ["ArrowUp"], shown: "↑", action: "layer-up", words: "a layer deeper" },
  { keys: ["ArrowDown"], shown: "↓", action: "layer-down", words: "a layer nearer to the input" },
  { keys: ["["], shown: "[", action: "head-before", words: "the head before" },
  { keys: ["]"], shown: "]", action: "head-after", words: "the head after" },
  {
    keys: ["Enter"],
    shown: "Enter",
    action: "pin",
    words: "pin what has the focus: trace through that word",
  },
  {
    keys: ["Escape"],
    shown: "Esc",
    action: "unpin",
    words: "unpin everything: the edge, the head, the words",
  },
  { keys: ["t"], shown: "t", action: "trace-back", words: "trace back from the decision" },
  { keys: ["f"], shown: "f", action: "trace-forward", words: "trace forward from the word" },
  { keys: ["+", "="], shown: "+", action: "coverage-more", words: "more of the flow" },
  { keys: ["-", "−"], shown: "−", action: "coverage-less", words: "less of the flow" },
  { keys: ["s"], shown: "s", action: "specials", words: "special tokens: gutter, drawn, hidden" },
  { keys: ["w"], shown: "w", action: "words", words: "words or tokens" },
  {
    keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
    shown: "1 … 9",
    action: "method",
    words: "the method of that number",
  },
  { keys: ["d"], shown: "d", action: "difference", words: "in a comparison: differences or sets" },
  { keys: ["x"], shown: "x", action: "swap", words: "in a comparison: swap the models" },
  { keys: ["r"], shown: "r", action: "view", words: "ladder or rings" },
  { keys: ["v"], shown: "v", action: "verify", words: "verify the path" },
  { keys: ["e"], shown: "e", action: "export", words: "export the flow picture" },
  { keys: ["l"], shown: "l", action: "link", words: "copy the link" },
  { keys: ["/"], shown: "/", action: "query", words: "to the query box" },
  { keys: ["?"], shown: "?", action: "help", words: "help" },
];

export interface Pressed {
  readonly action: Action;
  readonly key: string;
}

/**
 * What a key means, or null: while somebody types, or moves within a field, keys belong to that field. With a root,
 * those pressed outside of it belong to whoever is around it.
 */
export function pressed(event: KeyboardEvent, root?: Node): Pressed | null {
  if (root && !(event.target instanceof Node && root.contains(event.target))) return null;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return null;
  if (belongsToField(event.key, event.target)) return null;
  const found = KEYS.find(({ keys }) => keys.includes(event.key));
  return found ? { action: found.action, key: event.key } : null;
}

const ARROWS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]);
const WALKED = "[role='listbox'], [role='region'], [role='tablist'], [role='grid']";

function belongsToField(key: string, target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  if (target.closest("textarea, select, [contenteditable='true']")) return true;
  const input = target.closest("input");
  if (input && !/^(range|checkbox|radio|button)$/.test(input.type)) return true;
  if (key === "Enter") return target.closest(`button, a, summary, input, ${WALKED}`) !== null;
  return ARROWS.has(key) && target.closest(`input, ${WALKED}`) !== null;
}
