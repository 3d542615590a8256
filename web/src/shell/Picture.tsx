/** Interactive picture of a scene: canvas, tooltip, selection by pointer or keyboard, table, export menu. */

import {
  type KeyboardEvent,
  type PointerEvent,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";

import { drawOutline, paint } from "../render/canvas";
import { createHitIndex } from "../render/hitIndex";
import { type Hit, type Mark, type Scene, type Theme, getTitle } from "../render/scene";
import { ExportMenu } from "./ExportMenu";
import { Table } from "./Table";
import { findCentre, findNextMark } from "./markNavigation";

interface Props {
  readonly scene: Scene;
  readonly name: string; // short, for files: "flow", "heads"
  readonly caption: string; // caption of exported files
  readonly theme: Theme;
  readonly onHit?: (hit: Hit, how: { readonly add: boolean }) => void;
  readonly onHover?: (hit: Hit | null) => void; // called at every pointer move: must not set state
  readonly selected?: Hit | null;
  readonly draw?: (theme: Theme) => Scene; // redraws the scene in another theme, for export
}

/** Show a scene. */
export function Picture({ scene, name, caption, theme, onHit, onHover, selected, draw }: Props) {
  const id = useId();
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const option = useRef<HTMLSpanElement>(null);
  const place = useRef<number | null>(null);
  const [table, setTable] = useState(false);
  const index = useMemo(() => createHitIndex(scene), [scene]);
  const chosen = useMemo(() => (selected ? findMark(index.marks, selected) : null), [index, selected]);

  useLayoutEffect(() => {
    place.current = null;
    if (option.current) option.current.textContent = HINT;
    const context = prepareCanvas(canvas.current, scene);
    if (context) paint(context, scene, theme, getPixelRatio());
  }, [scene, theme]);
  useLayoutEffect(() => mark(null), [scene, theme, chosen]); // eslint-disable-line react-hooks/exhaustive-deps

  /** Outlines the hovered and the selected mark on the upper canvas; the lower one is not repainted. */
  function mark(hitMark: Mark | null, words = hitMark ? (getTitle(hitMark) ?? "") : ""): void {
    const context = prepareCanvas(overlay.current, scene);
    if (context) {
      context.setTransform(getPixelRatio(), 0, 0, getPixelRatio(), 0, 0);
      if (chosen) drawOutline(context, chosen, theme);
      if (hitMark) drawOutline(context, hitMark, theme);
    }
    const box = tip.current;
    if (!box) return;
    box.textContent = words;
    box.hidden = words === "";
    if (!hitMark) return;
    const [x, y] = findCentre(hitMark);
    box.style.left = `${Math.max(0, Math.min(x + 12, scene.width - box.offsetWidth))}px`;
    box.style.top = `${y + 14 + box.offsetHeight > scene.height ? Math.max(0, y - 14 - box.offsetHeight) : y + 14}px`;
  }

  function under(event: PointerEvent): Mark | null {
    const box = event.currentTarget.getBoundingClientRect();
    const scale = scene.width / (box.width || scene.width);
    return index.at((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  }

  function move(event: PointerEvent): void {
    const hitMark = under(event);
    mark(hitMark);
    event.currentTarget.classList.toggle("over", hitMark !== null);
    onHover?.(hitMark?.hit ?? null);
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
    const next = findNextMark(index.marks, place.current, event.key);
    if (next === null) return;
    event.preventDefault();
    place.current = next;
    const hitMark = index.marks[next] ?? null;
    const words = hitMark ? (getTitle(hitMark) ?? "") : "";
    if (option.current) option.current.textContent = `${words}, ${next + 1} of ${index.marks.length}`;
    mark(hitMark, words);
    onHover?.(hitMark?.hit ?? null);
  }

  const hasMarks = index.marks.length > 0;
  return (
    <figure className="picture" data-picture={name}>
      <div className="stage">
        {/* A listbox where there is something to walk to, an image where there is not. */}
        {/* eslint-disable-next-line jsx-a11y/no-static-element-interactions */}
        <div
          className="canvases"
          style={{ width: scene.width, height: scene.height }}
          role={hasMarks ? "listbox" : "img"}
          aria-label={scene.label}
          aria-activedescendant={hasMarks ? id : undefined}
          tabIndex={hasMarks ? 0 : undefined} // eslint-disable-line jsx-a11y/no-noninteractive-tabindex
          onPointerMove={move}
          onPointerLeave={leave}
          onBlur={leave}
          onClick={(event) => {
            const hitMark = under(event as unknown as PointerEvent);
            if (hitMark?.hit) onHit?.(hitMark.hit, { add: event.shiftKey });
          }}
          onKeyDown={keyed}
        >
          <canvas ref={canvas} aria-hidden="true" />
          <canvas ref={overlay} aria-hidden="true" />
          {hasMarks && (
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

function getPixelRatio(): number {
  return window.devicePixelRatio || 1;
}

/** Size and clear a canvas, and return its context. */
function prepareCanvas(canvas: HTMLCanvasElement | null, scene: Scene): CanvasRenderingContext2D | null {
  if (!canvas) return null;
  const [width, height] = [
    Math.round(scene.width * getPixelRatio()),
    Math.round(scene.height * getPixelRatio()),
  ];
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

function findMark(marks: readonly Mark[], hit: Hit): Mark | null {
  const wanted = JSON.stringify(hit);
  return marks.find((mark) => mark.hit && JSON.stringify(mark.hit) === wanted) ?? null;
}
