/** Field for a target that is in no list: a word of the vocabulary, an answer span, or its start or end. */

import { useState } from "react";

interface Props {
  readonly task: string | null;
  readonly target: string | null;
  readonly onChange: (target: string | null) => void;
}

const PARTS = { "": "start and end", start: "its start", end: "its end" } as const;

const TARGET_LABELS: Readonly<Record<string, readonly [label: string, hint: string]>> = {
  mask: ["another word", "good, or good:bad"],
  next: ["another token", "a token, or one:other"],
  sequence: ["another token", "a token, or one:other"],
  answer: ["another answer", "as it stands in the context"],
};

/** Enter a target; nothing for tasks whose targets are all listed. */
export function TargetField({ task, target, onChange }: Props) {
  const field = TARGET_LABELS[task ?? ""];
  if (field === undefined) return null;
  const [label, hint] = field;
  const part = target === "start" || target === "end" ? target : "";
  return (
    <>
      {task === "answer" && (
        <label>
          of the best answer{" "}
          <select value={part} onChange={(event) => onChange(event.target.value || null)}>
            {Object.entries(PARTS).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
      )}
      <WordField
        key={target}
        label={label}
        hint={hint}
        value={part ? "" : (target ?? "")}
        onChange={onChange}
      />
    </>
  );
}

interface WordFieldProps {
  readonly label: string;
  readonly hint: string;
  readonly value: string;
  readonly onChange: (target: string | null) => void;
}

function WordField({ label, hint, value, onChange }: WordFieldProps) {
  const [text, setWritten] = useState(value);
  const ask = (): void => {
    if (text !== value) onChange(text === "" ? null : text);
  };
  return (
    <label className="line">
      {label}{" "}
      <input
        type="text"
        name="other-target"
        dir="auto"
        placeholder={hint}
        value={text}
        onChange={(event) => setWritten(event.target.value)}
        onBlur={ask}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          ask();
        }}
      />
    </label>
  );
}
