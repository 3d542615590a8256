/** The data sets of the server, those among them that were brought since the page was opened. */

import { useState } from "react";

import type { DataSet } from "../api/types";
import type { Page } from "./context";
import type { Server } from "../source/source";
import { useAsked } from "./useAsked";

export interface DataSets {
  readonly sets: readonly DataSet[];
  readonly add: (brought: DataSet) => void;
}

export function useDataSets({ source, session }: Page<Server>): DataSets {
  const fresh = useAsked(`data sets ${session.started}`, (asking) => source.session(asking));
  const [brought, setBrought] = useState<readonly DataSet[]>([]);
  const known = fresh.value?.data ?? session.data;
  const sets = [...known, ...brought.filter(({ id }) => known.every((set) => set.id !== id))];
  return { sets, add: (set) => setBrought((old) => [...old.filter(({ id }) => id !== set.id), set]) };
}
