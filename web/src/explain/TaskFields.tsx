/** What is asked about a text beside the text: at which place, with which answer, among which labels. */

import type { KeyboardEvent } from "react";

import type { ModelEntry } from "../api/types";
import { type Draft, type Fields, masksOf } from "./fields";

interface Props {
  readonly fields: Fields;
  readonly entry: ModelEntry | undefined;
  readonly draft: Draft;
  readonly onChange: (change: Partial<Draft>) => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

export function TaskFields({ fields, entry, draft, onChange, onKeyDown }: Props) {
  const masks = masksOf(draft.text, entry);
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
        <Line
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
          <Line
            name="answer"
            label="Answer"
            hint="what it goes on with"
            value={draft.answer}
            onChange={(answer) => onChange({ answer })}
            onKeyDown={onKeyDown}
          />
          {draft.answer && (
            <Line
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
        <Line
          name="labels"
          label={fields.labels}
          hint={entry?.task === "similarity" ? "a cat, a dog" : "its own; or: sports, politics"}
          value={draft.labels}
          onChange={(labels) => onChange({ labels })}
          onKeyDown={onKeyDown}
        />
      )}
      {fields.template && draft.labels !== "" && (
        <Line
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

interface LineProps {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  readonly value: string | null;
  readonly onChange: (value: string) => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

function Line({ name, label, hint, value, onChange, onKeyDown }: LineProps) {
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
