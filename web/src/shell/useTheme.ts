/** Hook for the theme: the saved choice, else the system's. */

import { useEffect, useState, useSyncExternalStore } from "react";

import type { Theme } from "../render/scene";
import { DARK, LIGHT } from "../render/theme";

export type ThemeChoice = "auto" | "light" | "dark";

const STORAGE_KEY = "whence.theme";

interface ThemeState {
  readonly theme: Theme;
  readonly choice: ThemeChoice;
  readonly setChoice: (choice: ThemeChoice) => void;
}

/** Return theme and choice, and a function that changes the choice. */
export function useTheme(): ThemeState {
  const [choice, setChoice] = useState<ThemeChoice>(readChoice);
  const systemDark = useSyncExternalStore(watchSystem, isSystemDark);
  const dark = choice === "dark" || (choice === "auto" && systemDark);
  useEffect(() => saveChoice(choice), [choice]);
  return { theme: dark ? DARK : LIGHT, choice, setChoice };
}

/** Read the saved choice; frames without storage refuse, and then the system's theme applies. */
function readChoice(): ThemeChoice {
  try {
    const result = window.localStorage.getItem(STORAGE_KEY);
    return result === "light" || result === "dark" ? result : "auto";
  } catch {
    return "auto";
  }
}

function saveChoice(choice: ThemeChoice): void {
  try {
    if (choice === "auto") window.localStorage.removeItem(STORAGE_KEY);
    else window.localStorage.setItem(STORAGE_KEY, choice);
  } catch {
    // Without storage only the choice is lost.
  }
}

function querySystem(): MediaQueryList | null {
  return typeof window.matchMedia === "function" ? window.matchMedia("(prefers-color-scheme: dark)") : null;
}

function isSystemDark(): boolean {
  return querySystem()?.matches ?? false;
}

function watchSystem(listener: () => void): () => void {
  const result = querySystem();
  result?.addEventListener("change", listener);
  return () => result?.removeEventListener("change", listener);
}
