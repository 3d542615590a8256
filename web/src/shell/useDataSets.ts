/** Hook for the data sets of the server, with those uploaded since the session was loaded. */

import { useState } from "react";

import type { DataSet } from "../api/types";
import type { Page } from "./pageContext";
import type { Server } from "../source/source";

/** Data sets, and a function that adds one. */
export interface DataSets {
  readonly sets: readonly DataSet[];
  /** Puts one on the list, or another reading in the place of the one before. */
  readonly put: (set: DataSet) => void;
}

/** Return the data sets of the session and the uploaded ones. */
export function useDataSets({ session, refresh }: Page<Server>): DataSets {
  const [uploads, setUploads] = useState<readonly DataSet[]>([]);
  const sets = session.data.map((set) => uploads.find(({ id }) => id === set.id) ?? set);
  const missing = uploads.filter(({ id }) => session.data.every((set) => set.id !== id));
  const put = (set: DataSet): void => {
    setUploads((old) => [...old.filter(({ id }) => id !== set.id), set]);
    refresh?.();
  };
  return { sets: [...sets, ...missing], put };
}
