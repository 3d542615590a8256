/** Tabs of a page; arrow keys move between them, as ARIA prescribes. */

import { type KeyboardEvent, type ReactNode, useId, useRef } from "react";

interface Props {
  readonly label: string;
  readonly names: Readonly<Record<string, string>>;
  readonly value: string;
  readonly onChange: (name: string) => void;
  readonly children: (name: string) => ReactNode;
}

/** Show tabs and the panel that is open. */
export function Tabs({ label, names, value, onChange, children }: Props) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const keys = Object.keys(names);
  const moveFocus = (event: KeyboardEvent): void => {
    const at = findNextTab(keys.indexOf(value), keys.length, event.key);
    if (at === null) return;
    event.preventDefault();
    onChange(keys[at] ?? value);
    list.current?.querySelectorAll("button")[at]?.focus();
  };
  return (
    <>
      <div className="tabs" role="tablist" aria-label={label} tabIndex={-1} ref={list} onKeyDown={moveFocus}>
        {keys.map((key) => (
          <button
            key={key}
            type="button"
            role="tab"
            id={`${id}-${key}`}
            aria-selected={key === value}
            aria-controls={`${id}-panel`}
            tabIndex={key === value ? 0 : -1}
            onClick={() => onChange(key)}
          >
            {names[key]}
          </button>
        ))}
      </div>
      <div className="tab-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${value}`}>
        {children(value)}
      </div>
    </>
  );
}

/** Find the tab that a key moves to; null for other keys. */
export function findNextTab(at: number, count: number, key: string): number | null {
  if (key === "ArrowRight") return (at + 1) % count;
  if (key === "ArrowLeft") return (at + count - 1) % count;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}
