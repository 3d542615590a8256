/** Bars of the words with the highest scores of each class, with intervals; a bar opens its examples. */

import { useCallback, useMemo, useState } from "react";

import type { DataSet, ClassWordScores } from "../api/types";
import { drawBars } from "../render/bars";
import type { Theme } from "../render/scene";
import { usePage } from "../shell/pageContext";
import { formatCount, formatEstimate, formatFixed } from "../shell/numberFormat";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { shortenModelName } from "../shell/modelNames";
import { ExampleList } from "./ExampleList";
import { type ScoreRange, type ClassWord, findScoreRange, rankWords } from "./wordRanking";
import type { Row } from "./rows";

const MOST = 15;

interface Props {
  readonly scores: ClassWordScores;
  readonly rows: readonly Row[]; // predicted rows, for the examples
  readonly set: DataSet;
  readonly model: string; // model id; `scores.model` may be the path of a folder
}

/** Show one bar chart for each class, on a shared scale. */
export function ClassWords(props: Props) {
  const { scores } = props;
  const classes = useMemo(
    () => scores.classes.map(({ words, ...rest }) => ({ ...rest, words: rankWords(words, MOST) })),
    [scores],
  );
  const ends = useMemo(() => findScoreRange(classes.map(({ words }) => words)), [classes]);
  return (
    <section className="words-part" aria-label="Words of each class">
      <p>
        {scores.note}{" "}
        <span className="dim">
          {scores.method}, {formatCount(scores.used, "example")}. ×n: texts with the word. Whiskers: 95%
          intervals, known from 5 texts on; words of fewer texts come last. All classes have one scale. Choose
          a bar for examples.
        </span>
      </p>
      {scores.left_out.map((sentence) => (
        <p key={sentence} className="note">
          {sentence}
        </p>
      ))}
      <div className="columns">
        {classes.map((each) => (
          <ClassWordBars key={each.label} {...props} {...each} ends={ends} />
        ))}
      </div>
    </section>
  );
}

interface ClassWordBarsProps extends Props {
  readonly label: string;
  readonly predicted: number;
  readonly words: readonly ClassWord[];
  readonly ends: ScoreRange;
}

function ClassWordBars({ label, predicted, words, ends, scores, rows, set, model }: ClassWordBarsProps) {
  const { session } = usePage();
  const [chosen, setChosen] = useState<number | null>(null);
  const title = `${label}: the words it leans on`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      drawBars(words.map(buildBar), {
        width,
        theme,
        title,
        signed: scores.signed,
        axis: true,
        format: formatFixed,
        ...ends,
      }),
    [words, title, scores.signed, ends],
  );
  const word = chosen === null ? null : (words[chosen] ?? null);
  return (
    <article className="panel">
      <h3>
        {label} <span className="dim">predicted for {formatCount(predicted, "example")}</span>
      </h3>
      {words.length === 0 ? (
        <p className="empty">No word stands in enough of them. Take more examples.</p>
      ) : (
        <ResponsivePicture
          name={`words-${label}`}
          caption={`${title}; ${shortenModelName(model, session)}, ${scores.method}, ${scores.data}, n = ${predicted}`}
          draw={draw}
          onHit={(hit) => hit.kind === "cell" && setChosen(hit.row)}
          selected={chosen === null ? null : { kind: "cell", row: chosen, column: 0 }}
        />
      )}
      {word && (
        <ExampleList
          title={`“${word.word}”: ${formatEstimate(word.score, formatFixed)}`}
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

function buildBar({ word, score }: ClassWord) {
  return {
    label: `${word} ×${score.n}`,
    value: score.mean ?? 0,
    low: score.low,
    high: score.high,
    title: `${word}: ${formatEstimate(score, formatFixed)}`,
  };
}
