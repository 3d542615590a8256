/** Brush over a range of layers: drag, or click one and shift-click another. */

import { useRef } from "react";

import type { HistoryMode } from "../state/store";

interface Props {
  readonly layers: number;
  readonly value: readonly [number, number] | null;
  readonly onChange: (value: readonly [number, number] | null, mode: HistoryMode) => void;
}

/** Select a range of layers. */
export function LayerBrush({ layers, value, onChange }: Props) {
  const start = useRef<number | null>(null);
  const [first, last] = value ?? [0, layers - 1];
  const change = (from: number, to: number, mode: HistoryMode): void => {
    const range = [Math.min(from, to), Math.max(from, to)] as const;
    onChange(range[0] === 0 && range[1] === layers - 1 ? null : range, mode);
  };
  const press = (layer: number, add: boolean): void => {
    if (add && value) change(layer < first ? last : first, layer, "push");
    else if (value && first === last && first === layer) onChange(null, "push");
    else change(layer, layer, "push");
  };
  return (
    <span
      className="brush"
      role="group"
      aria-label="Layers"
      onPointerUp={() => (start.current = null)}
      onPointerLeave={() => (start.current = null)}
    >
      {Array.from({ length: layers }, (_, layer) => (
        <button
          key={layer}
          type="button"
          aria-pressed={layer >= first && layer <= last}
          aria-label={`Layer ${layer}`}
          title="Drag over several; shift-click extends; click a lone one for all"
          onPointerDown={(event) => {
            event.currentTarget.releasePointerCapture(event.pointerId);
            start.current = layer;
          }}
          onPointerEnter={() => {
            if (start.current !== null && start.current !== layer) change(start.current, layer, "replace");
          }}
          onClick={(event) => press(layer, event.shiftKey)}
        >
          {layer}
        </button>
      ))}
    </span>
  );
}
