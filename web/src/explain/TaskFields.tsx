/** Form fields of single tasks: mask, tagged position, answer and its contrast, labels and their template. */

import type { KeyboardEvent } from "react";

import type { ModelEntry } from "../api/types";
import { type Draft, type Fields, countMasks } from "./inputFields";

interface Props {
  readonly fields: Fields;
  readonly entry: ModelEntry | undefined;
  readonly draft: Draft;
  readonly onChange: (change: Partial<Draft>) => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

/** Show the extra fields of the model's task. */
export function TaskFields({ fields, entry, draft, onChange, onKeyDown }: Props) {
  const masks = countMasks(draft.text, entry);
  const mask = entry?.task === "mask" ? entry.mask : null;
  return (
    <>
      {mask && (
        <button
          type="button"
          className="small"
          title={`Put ${mask} at the end of the text: the word that is to be filled in`}
          onClick={() => onChange({ text: `${draft.text.trimEnd()} ${mask}`.trimStart() })}
        >
          + {mask}
        </button>
      )}
      {mask && masks > 1 && (
        <label>
          Which mask{" "}
          <select value={draft.at ?? "0"} onChange={(event) => onChange({ at: event.target.value })}>
            {Array.from({ length: masks }, (_, number) => (
              <option key={number} value={number}>
                {number + 1} of {masks}
              </option>
            ))}
          </select>
        </label>
      )}
      {fields.at !== null && entry?.task === "tags" && (
        <TextLine
          name="at"
          label={fields.at}
          hint="all that it finds"
          value={draft.at}
          onChange={(at) => onChange({ at })}
          onKeyDown={onKeyDown}
        />
      )}
      {fields.answer && (
        <>
          <TextLine
            name="answer"
            label="Answer"
            hint="what it goes on with"
            value={draft.answer}
            onChange={(answer) => onChange({ answer })}
            onKeyDown={onKeyDown}
          />
          {draft.answer && (
            <TextLine
              name="rather"
              label="rather than"
              hint="another answer"
              value={draft.rather}
              onChange={(rather) => onChange({ rather })}
              onKeyDown={onKeyDown}
            />
          )}
        </>
      )}
      {fields.labels !== null && (
        <TextLine
          name="labels"
          label={fields.labels}
          hint={entry?.task === "similarity" ? "a cat, a dog" : "its own; or: sports, politics"}
          value={draft.labels}
          onChange={(labels) => onChange({ labels })}
          onKeyDown={onKeyDown}
        />
      )}
      {fields.template && draft.labels !== "" && (
        <TextLine
          name="template"
          label="in the sentence"
          hint="This example is {}."
          value={draft.template}
          onChange={(template) => onChange({ template })}
          onKeyDown={onKeyDown}
        />
      )}
    </>
  );
}

interface TextLineProps {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  readonly value: string | null;
  readonly onChange: (value: string) => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

function TextLine({ name, label, hint, value, onChange, onKeyDown }: TextLineProps) {
  return (
    <label className="line">
      {label}{" "}
      <input
        type="text"
        name={name}
        dir="auto"
        placeholder={hint}
        value={value ?? ""}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={onKeyDown}
      />
    </label>
  );
}
