/** The methods that can be asked for here. */

import { useMemo } from "react";

import { isServer, usePage } from "../shell/context";
import { useAsked } from "../shell/useAsked";

export function useMethods(): readonly string[] {
  const { source } = usePage();
  const server = isServer(source) ? source : null;
  const help = useAsked(server ? "help" : null, (asking) =>
    server ? server.help(asking) : Promise.reject(new Error("no server")),
  );
  return useMemo(() => {
    if (source.reach) return source.reach.methods;
    return (help.value?.cards ?? []).flatMap((card) => (card.kind === "method" ? [card.name] : []));
  }, [source, help.value]);
}
