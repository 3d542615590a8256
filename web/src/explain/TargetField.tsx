/** A target that stands in no list: a word of the vocabulary, an answer in the context, or a part of one. */

import { useState } from "react";

interface Props {
  readonly task: string | null;
  readonly target: string | null;
  readonly onChange: (target: string | null) => void;
}

const PARTS = { "": "start and end", start: "its start", end: "its end" } as const;

const ASKED: Readonly<Record<string, readonly [label: string, hint: string]>> = {
  mask: ["another word", "good, or good:bad"],
  next: ["another token", "a token, or one:other"],
  sequence: ["another token", "a token, or one:other"],
  answer: ["another answer", "as it stands in the context"],
};

export function OtherTarget({ task, target, onChange }: Props) {
  const asked = ASKED[task ?? ""];
  if (asked === undefined) return null;
  const [label, hint] = asked;
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
      <Word key={target} label={label} hint={hint} value={part ? "" : (target ?? "")} onChange={onChange} />
    </>
  );
}

interface WordProps {
  readonly label: string;
  readonly hint: string;
  readonly value: string;
  readonly onChange: (target: string | null) => void;
}

function Word({ label, hint, value, onChange }: WordProps) {
  const [written, setWritten] = useState(value);
  const ask = (): void => {
    if (written !== value) onChange(written === "" ? null : written);
  };
  return (
    <label className="line">
      {label}{" "}
      <input
        type="text"
        name="other-target"
        dir="auto"
        placeholder={hint}
        value={written}
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
