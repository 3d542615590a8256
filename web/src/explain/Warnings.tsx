/** What to know before believing what is shown. */

import type { Explanations } from "../api/types";

interface Props {
  readonly explanations: Explanations;
  readonly more?: readonly string[];
}

export function Warnings({ explanations: { warnings, failed, input }, more = [] }: Props) {
  const cut = input.dropped > 0 && !warnings.some(({ code }) => code === "truncated");
  const all = [
    // That there is no attention to follow is said where it would be followed.
    ...warnings.filter(({ code }) => code !== "no-attention").map(({ message }) => message),
    ...(cut ? [`The model reads so much at a time and no more: ${input.dropped} tokens were left out.`] : []),
    ...failed.map(({ method, message }) => `${method}: ${message}`),
    ...more,
  ];
  if (all.length === 0) return null;
  return (
    <ul className="warnings" aria-label="Warnings">
      {all.map((message) => (
        <li key={message}>{message}</li>
      ))}
    </ul>
  );
}
