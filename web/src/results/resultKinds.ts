/** Kinds of saved results for the results page: names, counts, report URL, and commands that make them. */

const KIND_NAMES: Readonly<Record<string, string>> = {
  audit: "Audit",
  evaluation: "Evaluation",
  evaluations: "Evaluations",
  recommendation: "Recommendation",
  comparison: "Comparison",
  trust: "Trust card",
  explanation: "Explanation",
  targets: "Explanation of several targets",
  entities: "Explanation of several entities",
  generation: "Generation",
};

/** Format the name of a kind. */
export function formatKind(kind: string): string {
  return KIND_NAMES[kind] ?? kind;
}

/** Count the results of each kind, in the order of KIND_NAMES. */
export function countKinds(
  results: readonly { readonly kind: string }[],
): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const { kind } of results) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const order = Object.keys(KIND_NAMES);
  const place = (kind: string): number => (order.includes(kind) ? order.indexOf(kind) : order.length);
  return [...counts].sort(([a], [b]) => place(a) - place(b) || a.localeCompare(b, "en"));
}

/** Build the URL of a result's report. */
export function buildPageUrl(id: string): string {
  return `/api/results/${encodeURIComponent(id)}/page`;
}

/** Commands that make results, for the empty page. */
export const COMMANDS: readonly { readonly words: string; readonly command: string }[] = [
  {
    words: "May its attention be read as an explanation?",
    command: "whence audit data.tsv --json > audit.json",
  },
  {
    words: "Which method explains it best?",
    command: "whence evaluate --data data.tsv --json > evaluation.json",
  },
  {
    words: "What did fine-tuning change?",
    command: "whence compare BASE TUNED --data data.tsv --json > comparison.json",
  },
  { words: "Can this explanation be believed?", command: 'whence trust "your text" --json > card.json' },
  { words: "Why this answer?", command: 'whence explain "your text" --json > why.json' },
];
