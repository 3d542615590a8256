/** Warnings about the explanations: caveats, methods that failed, text that was cut. */

import type { Explanations } from "../api/types";

interface Props {
  readonly explanations: Explanations;
  readonly more?: readonly string[];
}

/** List the warnings of an answer. */
export function Warnings({ explanations: { warnings, failed, input }, more = [] }: Props) {
  const cut = input.dropped > 0 && !warnings.some(({ code }) => code === "truncated");
  const all = [
    // Missing attention is reported in the flow panel.
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
