/** Hook for the names of the methods that the source can compute, for the workbench's menus and keys. */

import { useMemo } from "react";

import { isServer, usePage } from "../shell/pageContext";
import { useRequest } from "../shell/useRequest";

/** Return the methods of the source, else of the help cards. */
export function useMethods(): readonly string[] {
  const { source } = usePage();
  const server = isServer(source) ? source : null;
  const help = useRequest(server ? "help" : null, (options) =>
    server ? server.help(options) : Promise.reject(new Error("no server")),
  );
  return useMemo(() => {
    if (source.reach) return source.reach.methods;
    return (help.value?.cards ?? []).flatMap((card) => (card.kind === "method" ? [card.name] : []));
  }, [source, help.value]);
}
