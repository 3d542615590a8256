/** Every picture as a file, with the caption that says what it shows. */

import { type KeyboardEvent, useRef, useState } from "react";

import { csv } from "../render/csv";
import { png } from "../render/png";
import type { Scene, Theme } from "../render/scene";
import { svg } from "../render/svg";
import { DARK, LIGHT } from "../render/theme";
import { download } from "./download";

interface Props {
  readonly name: string; // of the files, and of the menu for whoever opens it by a key
  readonly caption: string;
  readonly scene: Scene;
  readonly theme: Theme;
  readonly draw?: (theme: Theme) => Scene; // where a file may have another theme than the page
}

export function ExportMenu({ name, caption, scene, theme, draw }: Props) {
  const menu = useRef<HTMLDetailsElement>(null);
  const [dark, setDark] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const themed = (): readonly [Scene, Theme] => {
    const chosen = dark ? DARK : LIGHT;
    return draw && chosen.name !== theme.name ? [draw(chosen), chosen] : [scene, theme];
  };
  const save = (ending: string, content: () => Blob): void => {
    try {
      download(`whence-${name}.${ending}`, content());
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      return;
    }
    setProblem(null);
    if (menu.current) menu.current.open = false;
  };
  const close = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !menu.current?.open) return;
    event.preventDefault();
    menu.current.open = false;
    menu.current.querySelector("summary")?.focus();
  };
  return (
    // The menu closes itself; what is pressed in it are buttons.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <details className="menu" ref={menu} data-export={name} onKeyDown={close}>
      <summary aria-label={`Export: ${name}`}>Export</summary>
      <div className="sheet">
        <button
          type="button"
          onClick={() => save("svg", () => new Blob([svg(...themed(), caption)], { type: "image/svg+xml" }))}
        >
          SVG
        </button>
        <button type="button" onClick={() => save("png", () => png(...themed(), caption, 2))}>
          PNG
        </button>
        <button
          type="button"
          onClick={() => save("csv", () => new Blob([csv(scene.table, caption)], { type: "text/csv" }))}
        >
          CSV
        </button>
        {problem !== null && (
          <p className="problem" role="alert">
            {problem}
          </p>
        )}
        {draw && (
          <label>
            <input type="checkbox" checked={dark} onChange={(event) => setDark(event.target.checked)} /> dark
          </label>
        )}
      </div>
    </details>
  );
}
