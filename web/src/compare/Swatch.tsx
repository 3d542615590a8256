/** Swatch of a model's edges: colour and dash; either alone is enough to tell them apart. */

import { usePage } from "../shell/pageContext";

const DASH = { a: "6 3", b: "1.5 3", shared: undefined } as const;

/** Draw a short line in the colour and dash of A, B or shared edges. */
export function Swatch({ of }: { readonly of: keyof typeof DASH }) {
  const { theme } = usePage();
  return (
    <svg className="swatch" width="22" height="10" aria-hidden="true">
      <line x1="1" y1="5" x2="21" y2="5" stroke={theme[of]} strokeWidth="3" strokeDasharray={DASH[of]} />
    </svg>
  );
}
