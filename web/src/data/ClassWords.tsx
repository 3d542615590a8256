/** Which words each class leans on, over many examples, with intervals; a bar leads to examples. */

import { useCallback, useState } from "react";

import type { Leaning } from "../api/types";
import { bars } from "../render/bars";
import type { Theme } from "../render/scene";
import { count, figure } from "../shell/figures";
import { Drawn } from "../shell/Drawn";
import { Examples } from "./Examples";
import type { Row } from "./rows";

const MOST = 15;

interface Props {
  readonly leaning: Leaning;
  readonly rows: readonly Row[]; // those that were predicted, to show examples
}

export function ClassWords({ leaning, rows }: Props) {
  return (
    <section className="words-part" aria-label="Words of each class">
      <p>
        {leaning.note}{" "}
        <span className="dim">
          {leaning.method}, {count(leaning.used, "example")}. ×n: texts with the word. Whiskers: 95%
          intervals, known from 5 texts on. Choose a bar for examples.
        </span>
      </p>
      {leaning.left_out.map((sentence) => (
        <p key={sentence} className="note">
          {sentence}
        </p>
      ))}
      <div className="columns">
        {leaning.classes.map((words) => (
          <OneClass key={words.label} words={words} leaning={leaning} rows={rows} />
        ))}
      </div>
    </section>
  );
}

interface OneProps extends Props {
  readonly words: Leaning["classes"][number];
}

function OneClass({ words: { label, predicted, words }, leaning, rows }: OneProps) {
  const [chosen, setChosen] = useState<number | null>(null);
  const title = `${label}: the words it leans on`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      bars(words.slice(0, MOST).map(barOf), { width, theme, title, signed: leaning.signed }),
    [words, title, leaning.signed],
  );
  const word = chosen === null ? null : (words[chosen] ?? null);
  return (
    <article className="panel">
      <h3>
        {label} <span className="dim">predicted for {count(predicted, "example")}</span>
      </h3>
      {words.length === 0 ? (
        <p className="empty">No word stands in enough of them. Take more examples.</p>
      ) : (
        <Drawn
          name={`words-${label}`}
          caption={`${title}; ${leaning.model}, ${leaning.method}, ${leaning.data}, n = ${predicted}`}
          draw={draw}
          onHit={(hit) => hit.kind === "cell" && setChosen(hit.row)}
          selected={chosen === null ? null : { kind: "cell", row: chosen, column: 0 }}
        />
      )}
      {word && (
        <Examples
          title={`“${word.word}”: ${figure(word.score)}`}
          numbers={word.examples}
          word={word.word}
          rows={rows}
          model={leaning.model}
          onClose={() => setChosen(null)}
        />
      )}
    </article>
  );
}

function barOf({ word, score }: Leaning["classes"][number]["words"][number]) {
  return {
    label: `${word} ×${score.n}`,
    value: score.mean ?? 0,
    low: score.low,
    high: score.high,
    title: `${word}: ${figure(score)}`,
  };
}
