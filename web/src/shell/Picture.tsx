/** A scene on the page: drawn on a canvas, found by pointer and keyboard, written as a table, saved as a file. */

import {
  type KeyboardEvent,
  type PointerEvent,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";

import { outline, paint } from "../render/canvas";
import { hitIndex } from "../render/hits";
import { type Hit, type Mark, type Scene, type Theme, titleOf } from "../render/scene";
import { ExportMenu } from "./ExportMenu";
import { Table } from "./Table";
import { centre, nextMark } from "./roving";

interface Props {
  readonly scene: Scene;
  readonly name: string; // short, for files: "flow", "heads"
  readonly caption: string; // what files say under the picture
  readonly theme: Theme;
  readonly onHit?: (hit: Hit, how: { readonly add: boolean }) => void;
  readonly onHover?: (hit: Hit | null) => void; // must not set state: it is called at every movement
  readonly selected?: Hit | null;
  readonly draw?: (theme: Theme) => Scene; // lets files choose another theme than the page's
}

export function Picture({ scene, name, caption, theme, onHit, onHover, selected, draw }: Props) {
  const id = useId();
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const option = useRef<HTMLSpanElement>(null);
  const place = useRef<number | null>(null);
  const [table, setTable] = useState(false);
  const index = useMemo(() => hitIndex(scene), [scene]);
  const chosen = useMemo(() => (selected ? find(index.marks, selected) : null), [index, selected]);

  useLayoutEffect(() => {
    place.current = null;
    if (option.current) option.current.textContent = HINT;
    const context = fitted(canvas.current, scene);
    if (context) paint(context, scene, theme, ratio());
  }, [scene, theme]);
  useLayoutEffect(() => mark(null), [scene, theme, chosen]); // eslint-disable-line react-hooks/exhaustive-deps

  /** Draws what is under the pointer, and what is selected, on the upper canvas: the lower one stays as it is. */
  function mark(found: Mark | null, words = found ? (titleOf(found) ?? "") : ""): void {
    const context = fitted(overlay.current, scene);
    if (context) {
      context.setTransform(ratio(), 0, 0, ratio(), 0, 0);
      if (chosen) outline(context, chosen, theme);
      if (found) outline(context, found, theme);
    }
    const box = tip.current;
    if (!box) return;
    box.textContent = words;
    box.hidden = words === "";
    if (!found) return;
    const [x, y] = centre(found);
    box.style.left = `${Math.max(0, Math.min(x + 12, scene.width - box.offsetWidth))}px`;
    box.style.top = `${y + 14 + box.offsetHeight > scene.height ? Math.max(0, y - 14 - box.offsetHeight) : y + 14}px`;
  }

  function under(event: PointerEvent): Mark | null {
    const box = event.currentTarget.getBoundingClientRect();
    const scale = scene.width / (box.width || scene.width);
    return index.at((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  }

  function move(event: PointerEvent): void {
    const found = under(event);
    mark(found);
    event.currentTarget.classList.toggle("over", found !== null);
    onHover?.(found?.hit ?? null);
  }

  function leave(): void {
    mark(null);
    onHover?.(null);
  }

  function keyed(event: KeyboardEvent): void {
    const current = place.current === null ? null : (index.marks[place.current] ?? null);
    if (event.key === "Enter" || event.key === " ") {
      if (!current?.hit || !onHit) return;
      event.preventDefault();
      onHit(current.hit, { add: event.shiftKey });
      return;
    }
    const next = nextMark(index.marks, place.current, event.key);
    if (next === null) return;
    event.preventDefault();
    place.current = next;
    const found = index.marks[next] ?? null;
    const words = found ? (titleOf(found) ?? "") : "";
    if (option.current) option.current.textContent = `${words}, ${next + 1} of ${index.marks.length}`;
    mark(found, words);
    onHover?.(found?.hit ?? null);
  }

  const canBeWalked = index.marks.length > 0;
  return (
    <figure className="picture" data-picture={name}>
      <div className="stage">
        {/* A listbox where there is something to walk to, an image where there is not. */}
        {/* eslint-disable-next-line jsx-a11y/no-static-element-interactions */}
        <div
          className="canvases"
          style={{ width: scene.width, height: scene.height }}
          role={canBeWalked ? "listbox" : "img"}
          aria-label={scene.label}
          aria-activedescendant={canBeWalked ? id : undefined}
          tabIndex={canBeWalked ? 0 : undefined} // eslint-disable-line jsx-a11y/no-noninteractive-tabindex
          onPointerMove={move}
          onPointerLeave={leave}
          onBlur={leave}
          onClick={(event) => {
            const found = under(event as unknown as PointerEvent);
            if (found?.hit) onHit?.(found.hit, { add: event.shiftKey });
          }}
          onKeyDown={keyed}
        >
          <canvas ref={canvas} aria-hidden="true" />
          <canvas ref={overlay} aria-hidden="true" />
          {canBeWalked && (
            <span ref={option} id={id} role="option" aria-selected="true" className="unseen">
              {HINT}
            </span>
          )}
          <div ref={tip} className="tip" aria-hidden="true" hidden />
        </div>
      </div>
      <div className="under">
        <details className="as-table" onToggle={(event) => setTable(event.currentTarget.open)}>
          <summary>As table</summary>
          {table && <Table caption={scene.label} columns={scene.table.columns} rows={scene.table.rows} />}
        </details>
        <ExportMenu name={name} caption={caption} scene={scene} theme={theme} {...(draw ? { draw } : {})} />
      </div>
    </figure>
  );
}

const HINT = "Arrow keys walk from mark to mark, Enter chooses";

function ratio(): number {
  return window.devicePixelRatio || 1;
}

/** The canvas' context, sized and cleared. */
function fitted(canvas: HTMLCanvasElement | null, scene: Scene): CanvasRenderingContext2D | null {
  if (!canvas) return null;
  const [width, height] = [Math.round(scene.width * ratio()), Math.round(scene.height * ratio())];
  const context = canvas.getContext("2d");
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    canvas.style.width = `${scene.width}px`;
    canvas.style.height = `${scene.height}px`;
  } else if (context) {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
  }
  return context;
}

function find(marks: readonly Mark[], hit: Hit): Mark | null {
  const wanted = JSON.stringify(hit);
  return marks.find((mark) => mark.hit && JSON.stringify(mark.hit) === wanted) ?? null;
}
