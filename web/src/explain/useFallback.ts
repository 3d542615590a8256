/** Hook for links with an unknown method or target: falls back to the default and says so. */

import { useEffect, useMemo, useState } from "react";

import type { Fault } from "../api/types";
import { usePage } from "../shell/pageContext";
import { DEFAULT, type ViewState } from "../state/state";

interface Fallback {
  readonly words: string | null;
  readonly dismiss: () => void;
}

interface FallbackNote {
  readonly of: Fault;
  readonly question: string;
  readonly words: string | null;
}

/** Fall back where the fault allows it. `question` identifies the input: notes about another are dropped. */
export function useFallback(
  fault: Fault | null,
  knownMethods: readonly string[],
  question: string,
): Fallback {
  const { state, update } = usePage();
  const [note, setNote] = useState<FallbackNote | null>(null);
  const change = useMemo(
    () => (fault ? findFallback(fault, state, knownMethods) : null),
    [fault, state, knownMethods],
  );
  if (fault && change && note?.of !== fault)
    setNote({ of: fault, question, words: `${takeFirstSentence(fault.message)} ${describeChange(change)}` });
  useEffect(() => {
    if (change) update(change, "replace");
  }, [change, update]);
  const words = note?.question === question ? note.words : null;
  return { words, dismiss: () => setNote(note && { ...note, words: null }) };
}

type Change = Pick<ViewState, "methods"> | Pick<ViewState, "target">;

/** Find the state change to try instead; null for other faults, or where nothing is left to try. */
export function findFallback(fault: Fault, state: ViewState, knownMethods: readonly string[]): Change | null {
  if (fault.code === "unknown-target") return state.target === null ? null : { target: null };
  if (fault.code !== "unknown-method") return null;
  const methodNames = state.methods.filter((name) => knownMethods.includes(name));
  const methods = methodNames.length > 0 ? methodNames : DEFAULT.methods;
  return methods.join() === state.methods.join() ? null : { methods };
}

function describeChange(change: Change): string {
  return "methods" in change
    ? `Shown instead: ${change.methods.join(", ") || "the usual method"}.`
    : "Explained instead: what was predicted.";
}

function takeFirstSentence(message: string): string {
  return /^.*?\.(?=\s|$)/.exec(message)?.[0] ?? message;
}
