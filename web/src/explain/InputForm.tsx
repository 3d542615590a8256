/** Input form: model menu, texts with character counter, picture, task fields, submit and generate buttons. */

import { type KeyboardEvent, type ReactNode, useState } from "react";

import type { Input, ModelEntry, Session } from "../api/types";
import { ModelChoice } from "../shell/ModelChoice";
import { formatWhole } from "../shell/numberFormat";
import { PictureField } from "./PictureField";
import { TaskFields } from "./TaskFields";
import { type Draft, findFields, asTextModel, findSamples } from "./inputFields";

interface Props {
  readonly input: Input;
  readonly session: Session;
  readonly pending: boolean;
  readonly disabledReason: string | null; // null, or why the input cannot be changed
  readonly onAsk: (draft: Draft) => void;
  readonly tokens?: number | null; // number of tokens to generate
  readonly onGenerate?: (draft: Draft, tokens: number) => void;
  readonly onModel: (model: string) => void;
  readonly models?: ReactNode; // replaces the model menu
  readonly plain?: boolean; // text fields only
  readonly verb?: string;
}

/** Show the fields that the model's task needs, and submit them. */
export function InputForm(props: Props) {
  const {
    input,
    session,
    pending,
    disabledReason,
    onAsk,
    tokens = null,
    onGenerate,
    onModel,
    models,
    plain,
    verb = "Explain",
  } = props;
  const known = session.models.find(({ id }) => id === input.model);
  const entry = plain ? asTextModel(known) : known;
  const fields = findFields(entry);
  const [draft, setDraft] = useState<Draft>(() => buildDraft(input));
  const set = (change: Partial<Draft>): void => setDraft((old) => ({ ...old, ...change }));
  const { text, pair } = draft;
  const longest = Math.max(...[text, pair ?? "", draft.answer ?? ""].map((each) => [...each].length));
  const isTooLong = longest > session.limits.characters;
  const isEmpty = fields.text !== null && !fields.picture && text.trim() === "";
  const ask = (change: Partial<Draft> = {}): void => {
    if (!isEmpty && !isTooLong) onAsk(dropEmptyFields({ ...draft, ...change }));
  };
  const submitOnEnter = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    ask();
  };
  const samples = findSamples(entry, session);
  return (
    <form
      className="ask"
      onSubmit={(event) => {
        event.preventDefault();
        ask();
      }}
    >
      <fieldset disabled={disabledReason !== null} title={disabledReason ?? undefined}>
        <legend className="unseen">What is explained</legend>
        {models ?? <ModelChoice label="Model " value={input.model} onChange={onModel} />}
        {fields.picture && disabledReason === null && (
          <PictureField
            picture={draft.picture}
            draws={entry?.draws ?? false}
            most={session.limits.upload}
            onPicture={(picture) => {
              set({ picture });
              ask({ picture });
            }}
          />
        )}
        {fields.text !== null && (
          <TextArea
            label={fields.text}
            name="text"
            hint={describeModel(entry)}
            value={text}
            onChange={(value) => set({ text: value })}
            onKeyDown={submitOnEnter}
          />
        )}
        {fields.pair !== null && (pair !== null || fields.needsPair || entry?.reads_pairs) && (
          <TextArea
            label={fields.pair}
            name="pair"
            hint={fields.needsPair ? fields.pair : "A second text, for models of pairs"}
            value={pair ?? ""}
            onChange={(value) => set({ pair: value })}
            onKeyDown={submitOnEnter}
          />
        )}
        {fields.pair !== null && !fields.needsPair && !entry?.reads_pairs && (
          <button type="button" className="small" onClick={() => set({ pair: pair === null ? "" : null })}>
            {pair === null ? "+ second text" : "− second text"}
          </button>
        )}
        <TaskFields fields={fields} entry={entry} draft={draft} onChange={set} onKeyDown={submitOnEnter} />
        <button type="submit" className="primary" disabled={isEmpty || isTooLong} aria-busy={pending}>
          {verb}
        </button>
        {fields.generate && onGenerate && (
          <GenerateControl
            first={tokens ?? 20}
            most={session.limits.generated}
            isEmpty={isEmpty || isTooLong}
            isGiven={Boolean(draft.answer?.trim())}
            onAsk={(count) => onGenerate(dropEmptyFields(draft), count)}
          />
        )}
      </fieldset>
      <CharacterCounter longest={longest} most={session.limits.characters} />
      {samples.length > 1 && disabledReason === null && (
        <details className="menu samples">
          <summary>Samples</summary>
          <div className="sheet">
            {samples.map((sample) => (
              <button
                key={`${sample.text} ${sample.pair ?? ""}`}
                type="button"
                className="plain"
                onClick={(event) => {
                  event.currentTarget.closest("details")?.removeAttribute("open");
                  const chosen = { ...EMPTY, text: sample.text, pair: sample.pair };
                  setDraft(chosen);
                  onAsk(chosen);
                }}
              >
                {sample.pair === null ? sample.text : `${sample.text} / ${sample.pair}`}
              </button>
            ))}
          </div>
        </details>
      )}
    </form>
  );
}

const EMPTY: Draft = {
  text: "",
  pair: null,
  picture: null,
  at: null,
  answer: null,
  rather: null,
  labels: "",
  template: null,
};

function buildDraft(input: Input): Draft {
  const { text, pair = null, picture = null, at = null } = input;
  const { answer = null, rather = null, labels, template = null } = input;
  return { text, pair, picture, at, answer, rather, labels: labels?.join(", ") ?? "", template };
}

/** Drop empty fields: they request nothing. */
function dropEmptyFields(draft: Draft): Draft {
  const keepText = (value: string | null): string | null => (value?.trim() ? value : null);
  return {
    ...draft,
    pair: draft.pair === "" ? null : draft.pair,
    at: keepText(draft.at),
    answer: keepText(draft.answer),
    rather: keepText(draft.rather),
    template: keepText(draft.template),
  };
}

function describeModel(entry: ModelEntry | undefined): string {
  switch (entry?.task) {
    case "answer":
      return "A question about the context";
    case "mask":
      return `A text with ${entry.mask ?? "a mask"} in it`;
    case "next":
      return "A prompt; passages in [[ ]] can be told apart";
    case "similarity":
      return "A text to be explained itself, instead of the picture";
    default:
      return "A text to explain";
  }
}

interface TextAreaProps {
  readonly label: string;
  readonly name: string;
  readonly hint: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

function TextArea({ label, name, hint, value, onChange, onKeyDown }: TextAreaProps) {
  const rows = Math.min(5, 1 + Math.floor(value.length / 110) + (value.match(/\n/g)?.length ?? 0));
  return (
    <label className="grow">
      <span className={label === "Question" || label === "Context" ? "field-name" : "unseen"}>{label}</span>
      <textarea
        name={name}
        rows={name === "text" ? rows : Math.max(1, rows)}
        dir="auto"
        placeholder={hint}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={onKeyDown}
      />
    </label>
  );
}

interface GenerateControlProps {
  readonly first: number;
  readonly most: number;
  readonly isEmpty: boolean;
  readonly isGiven: boolean; // an answer was given: it is explained, and nothing is generated
  readonly onAsk: (tokens: number) => void;
}

function GenerateControl({ first, most, isEmpty, isGiven, onAsk }: GenerateControlProps) {
  const [tokens, setTokens] = useState(Math.min(first, most));
  return (
    <span className="generate">
      <button type="button" disabled={isEmpty} onClick={() => onAsk(tokens)}>
        {isGiven ? "Token by token" : "Generate"}
      </button>
      <label hidden={isGiven}>
        <input
          type="number"
          min={1}
          max={most}
          value={tokens}
          onChange={(event) =>
            setTokens(Math.max(1, Math.min(most, Math.round(event.target.valueAsNumber || 1))))
          }
        />{" "}
        tokens
      </label>
    </span>
  );
}

interface CharacterCounterProps {
  readonly longest: number; // characters of the longest text
  readonly most: number;
}

/** Show the number of characters near the limit; nothing is cut, longer input cannot be submitted. */
function CharacterCounter({ longest, most }: CharacterCounterProps) {
  if (longest < 0.9 * most) return null;
  const isTooLong = longest > most;
  return (
    <p className={isTooLong ? "counter problem" : "counter dim"} role="status">
      {isTooLong
        ? `The text has ${formatWhole(longest)} characters, and ${formatWhole(most)} are the most: give a part of it, or ask on the command line, which has no such limit.`
        : `${formatWhole(longest)} of ${formatWhole(most)} characters`}
    </p>
  );
}
