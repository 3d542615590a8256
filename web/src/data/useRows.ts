/** What is asked of a data set, read from the link and written to it. */

import type { Mode } from "../shell/context";
import { usePage } from "../shell/context";
import { type Asked, readRows, writeRows } from "./rowlink";

export function useRows(): readonly [Asked, (change: Partial<Asked>, mode?: Mode) => void] {
  const { state, update } = usePage();
  const asked = readRows(state.rows);
  return [asked, (change, mode = "replace") => update({ rows: writeRows({ ...asked, ...change }) }, mode)];
}
