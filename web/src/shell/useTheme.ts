/** Light or dark: as the system has it, unless somebody chose. */

import { useEffect, useState, useSyncExternalStore } from "react";

import type { Theme } from "../render/scene";
import { DARK, LIGHT } from "../render/theme";

export type ThemeChoice = "auto" | "light" | "dark";

const KEPT = "whence.theme";

interface Themed {
  readonly theme: Theme;
  readonly choice: ThemeChoice;
  readonly setChoice: (choice: ThemeChoice) => void;
}

export function useTheme(): Themed {
  const [choice, setChoice] = useState<ThemeChoice>(kept);
  const systemDark = useSyncExternalStore(watchSystem, isSystemDark);
  const dark = choice === "dark" || (choice === "auto" && systemDark);
  useEffect(() => keep(choice), [choice]);
  return { theme: dark ? DARK : LIGHT, choice, setChoice };
}

/** Frames without storage of their own refuse to be asked; they forget. */
function kept(): ThemeChoice {
  try {
    const found = window.localStorage.getItem(KEPT);
    return found === "light" || found === "dark" ? found : "auto";
  } catch {
    return "auto";
  }
}

function keep(choice: ThemeChoice): void {
  try {
    if (choice === "auto") window.localStorage.removeItem(KEPT);
    else window.localStorage.setItem(KEPT, choice);
  } catch {
    // Nothing is lost but the wish.
  }
}

function query(): MediaQueryList | null {
  return typeof window.matchMedia === "function" ? window.matchMedia("(prefers-color-scheme: dark)") : null;
}

function isSystemDark(): boolean {
  return query()?.matches ?? false;
}

function watchSystem(listener: () => void): () => void {
  const found = query();
  found?.addEventListener("change", listener);
  return () => found?.removeEventListener("change", listener);
}
