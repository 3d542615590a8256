/** Which words each class leans on, over many examples, with intervals; a bar leads to examples. */

import { useCallback, useMemo, useState } from "react";

import type { DataSet, Leaning } from "../api/types";
import { bars } from "../render/bars";
import type { Theme } from "../render/scene";
import { usePage } from "../shell/context";
import { count, figure, fixed } from "../shell/figures";
import { Drawn } from "../shell/Drawn";
import { shortName } from "../shell/names";
import { Examples } from "./Examples";
import { type Ends, type LeaningWord, sharedEnds, shownWords } from "./leaning";
import type { Row } from "./rows";

const MOST = 15;

interface Props {
  readonly leaning: Leaning;
  readonly rows: readonly Row[]; // those that were predicted, to show examples
  readonly set: DataSet;
  readonly model: string; // its id: what `leaning` calls it may be the path of a folder
}

export function ClassWords(props: Props) {
  const { leaning } = props;
  const classes = useMemo(
    () => leaning.classes.map(({ words, ...rest }) => ({ ...rest, words: shownWords(words, MOST) })),
    [leaning],
  );
  const ends = useMemo(() => sharedEnds(classes.map(({ words }) => words)), [classes]);
  return (
    <section className="words-part" aria-label="Words of each class">
      <p>
        {leaning.note}{" "}
        <span className="dim">
          {leaning.method}, {count(leaning.used, "example")}. ×n: texts with the word. Whiskers: 95%
          intervals, known from 5 texts on; words of fewer texts come last. All classes have one scale. Choose
          a bar for examples.
        </span>
      </p>
      {leaning.left_out.map((sentence) => (
        <p key={sentence} className="note">
          {sentence}
        </p>
      ))}
      <div className="columns">
        {classes.map((each) => (
          <OneClass key={each.label} {...props} {...each} ends={ends} />
        ))}
      </div>
    </section>
  );
}

interface OneProps extends Props {
  readonly label: string;
  readonly predicted: number;
  readonly words: readonly LeaningWord[];
  readonly ends: Ends;
}

function OneClass({ label, predicted, words, ends, leaning, rows, set, model }: OneProps) {
  const { session } = usePage();
  const [chosen, setChosen] = useState<number | null>(null);
  const title = `${label}: the words it leans on`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      bars(words.map(barOf), {
        width,
        theme,
        title,
        signed: leaning.signed,
        axis: true,
        written: fixed,
        ...ends,
      }),
    [words, title, leaning.signed, ends],
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
          caption={`${title}; ${shortName(model, session)}, ${leaning.method}, ${leaning.data}, n = ${predicted}`}
          draw={draw}
          onHit={(hit) => hit.kind === "cell" && setChosen(hit.row)}
          selected={chosen === null ? null : { kind: "cell", row: chosen, column: 0 }}
        />
      )}
      {word && (
        <Examples
          title={`“${word.word}”: ${figure(word.score, fixed)}`}
          numbers={word.examples}
          word={word.word}
          rows={rows}
          model={model}
          data={set.id}
          onClose={() => setChosen(null)}
        />
      )}
    </article>
  );
}

function barOf({ word, score }: LeaningWord) {
  return {
    label: `${word} ×${score.n}`,
    value: score.mean ?? 0,
    low: score.low,
    high: score.high,
    title: `${word}: ${figure(score, fixed)}`,
  };
}
