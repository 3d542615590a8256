/** Hook for the theme of the notebook around the widget, else of the system. */

import { useSyncExternalStore } from "react";

import type { Theme } from "../render/scene";
import { DARK, LIGHT } from "../render/theme";

const SYSTEM = "(prefers-color-scheme: dark)";

/** Return the light or dark theme, following changes. */
export function useHostTheme(): Theme {
  return useSyncExternalStore(watchTheme, isDark) ? DARK : LIGHT;
}

function isDark(): boolean {
  const { body, documentElement: root } = document;
  const jupyter = body.dataset["jpThemeLight"];
  if (jupyter !== undefined) return jupyter === "false";
  if (/\bvscode-(dark|light)\b/.test(body.className)) return body.classList.contains("vscode-dark");
  if (root.hasAttribute("theme")) return root.getAttribute("theme") === "dark"; // Colab
  return window.matchMedia(SYSTEM).matches;
}

function watchTheme(listener: () => void): () => void {
  const system = window.matchMedia(SYSTEM);
  const host = new MutationObserver(listener);
  system.addEventListener("change", listener);
  for (const element of [document.body, document.documentElement])
    host.observe(element, { attributes: true });
  return () => {
    system.removeEventListener("change", listener);
    host.disconnect();
  };
}
