/** A link may name a method or a target that is not here: then the default holds, and that is said. */

import { useEffect, useMemo, useState } from "react";

import type { Fault } from "../api/types";
import { usePage } from "../shell/context";
import { DEFAULT, type ViewState } from "../state/state";

interface Fallback {
  readonly words: string | null;
  readonly dismiss: () => void;
}

interface Told {
  readonly of: Fault;
  readonly question: string;
  readonly words: string | null;
}

/** `question` names the input: what was said about another one is of no interest. */
export function useFallback(fault: Fault | null, known: readonly string[], question: string): Fallback {
  const { state, update } = usePage();
  const [told, setTold] = useState<Told | null>(null);
  const change = useMemo(() => (fault ? changeOf(fault, state, known) : null), [fault, state, known]);
  if (fault && change && told?.of !== fault)
    setTold({ of: fault, question, words: `${firstSentence(fault.message)} ${instead(change)}` });
  useEffect(() => {
    if (change) update(change, "replace");
  }, [change, update]);
  const words = told?.question === question ? told.words : null;
  return { words, dismiss: () => setTold(told && { ...told, words: null }) };
}

type Change = Pick<ViewState, "methods"> | Pick<ViewState, "target">;

/** What to ask for instead; null where the fault lies elsewhere, or nothing is left to try. */
export function changeOf(fault: Fault, state: ViewState, known: readonly string[]): Change | null {
  if (fault.code === "unknown-target") return state.target === null ? null : { target: null };
  if (fault.code !== "unknown-method") return null;
  const kept = state.methods.filter((name) => known.includes(name));
  const methods = kept.length > 0 ? kept : DEFAULT.methods;
  return methods.join() === state.methods.join() ? null : { methods };
}

function instead(change: Change): string {
  return "methods" in change
    ? `Shown instead: ${change.methods.join(", ") || "the usual method"}.`
    : "Explained instead: what was predicted.";
}

function firstSentence(message: string): string {
  return /^.*?\.(?=\s|$)/.exec(message)?.[0] ?? message;
}
