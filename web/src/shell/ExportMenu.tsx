/** Export menu of a picture: SVG, PNG and CSV, each with the caption. */

import { type KeyboardEvent, useRef, useState } from "react";

import { formatCsv } from "../render/csv";
import { renderPng } from "../render/png";
import type { Scene, Theme } from "../render/scene";
import { renderSvg } from "../render/svg";
import { DARK, LIGHT } from "../render/theme";
import { download } from "./download";

interface Props {
  readonly name: string; // name of the files, and of the menu for keyboard users
  readonly caption: string;
  readonly scene: Scene;
  readonly theme: Theme;
  readonly draw?: (theme: Theme) => Scene; // redraws the scene for a file with another theme
}

/** Download a picture in a chosen format and theme. */
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
    // A click on one of its buttons closes the menu.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <details className="menu" ref={menu} data-export={name} onKeyDown={close}>
      <summary aria-label={`Export: ${name}`}>Export</summary>
      <div className="sheet">
        <button
          type="button"
          onClick={() =>
            save("svg", () => new Blob([renderSvg(...themed(), caption)], { type: "image/svg+xml" }))
          }
        >
          SVG
        </button>
        <button type="button" onClick={() => save("png", () => renderPng(...themed(), caption, 2))}>
          PNG
        </button>
        <button
          type="button"
          onClick={() => save("csv", () => new Blob([formatCsv(scene.table, caption)], { type: "text/csv" }))}
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
