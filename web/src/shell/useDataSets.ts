/** The data sets of the server, those among them that were brought since it was asked. */

import { useState } from "react";

import type { DataSet } from "../api/types";
import type { Page } from "./context";
import type { Server } from "../source/source";

export interface DataSets {
  readonly sets: readonly DataSet[];
  /** Puts one on the list, or another reading in the place of the one before. */
  readonly put: (set: DataSet) => void;
}

export function useDataSets({ session, refresh }: Page<Server>): DataSets {
  const [brought, setBrought] = useState<readonly DataSet[]>([]);
  const sets = session.data.map((set) => brought.find(({ id }) => id === set.id) ?? set);
  const missing = brought.filter(({ id }) => session.data.every((set) => set.id !== id));
  const put = (set: DataSet): void => {
    setBrought((old) => [...old.filter(({ id }) => id !== set.id), set]);
    refresh?.();
  };
  return { sets: [...sets, ...missing], put };
}
