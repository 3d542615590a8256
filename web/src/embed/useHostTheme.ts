/** Light or dark as the notebook around us is; where there is none, as the system is. */

import { useSyncExternalStore } from "react";

import type { Theme } from "../render/scene";
import { DARK, LIGHT } from "../render/theme";

const SYSTEM = "(prefers-color-scheme: dark)";

export function useHostTheme(): Theme {
  return useSyncExternalStore(watch, isDark) ? DARK : LIGHT;
}

function isDark(): boolean {
  const { body, documentElement: root } = document;
  const jupyter = body.dataset["jpThemeLight"];
  if (jupyter !== undefined) return jupyter === "false";
  if (/\bvscode-(dark|light)\b/.test(body.className)) return body.classList.contains("vscode-dark");
  if (root.hasAttribute("theme")) return root.getAttribute("theme") === "dark"; // Colab
  return window.matchMedia(SYSTEM).matches;
}

function watch(listener: () => void): () => void {
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
