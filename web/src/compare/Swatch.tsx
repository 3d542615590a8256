/** How a model's edges look: colour and dash, so that either is enough. */

import { usePage } from "../shell/context";

const DASH = { a: "6 3", b: "1.5 3", shared: undefined } as const;

export function Swatch({ of }: { readonly of: keyof typeof DASH }) {
  const { theme } = usePage();
  return (
    <svg className="swatch" width="22" height="10" aria-hidden="true">
      <line x1="1" y1="5" x2="21" y2="5" stroke={theme[of]} strokeWidth="3" strokeDasharray={DASH[of]} />
    </svg>
  );
}
