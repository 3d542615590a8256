/** On the workbench, for who came from a data set: which row this is, the rows before and after it, and the way back. */

import type { Predicted } from "../api/types";
import { isServer, usePage } from "../shell/context";
import { grouped } from "../shell/figures";
import { keptOutcome } from "../shell/useKeptJob";
import { explainRow } from "./explainRow";
import { predictKey } from "./jobs";
import { limitOf } from "./Limit";
import { MOST_PREDICTED, USUALLY_PREDICTED } from "./limits";
import { neighbours } from "./neighbours";
import { readRows } from "./rowlink";
import type { Row } from "./rows";
import "./data.css";

export function RowWalk() {
  const { source, session, state, update } = usePage();
  const asked = readRows(state.rows);
  const set = session.data.find(({ id }) => id === state.data);
  if (!isServer(source) || asked.at === null || set === undefined) return null;
  const model = state.model || (session.models[0]?.id ?? "");
  const limit = limitOf(asked.predict, set.rows, USUALLY_PREDICTED, MOST_PREDICTED);
  const predicted = keptOutcome<Predicted>(predictKey(session, set, model, limit));
  const here = predicted && neighbours(predicted.rows, asked);
  // Who has typed another text since has left the row.
  if (here && (here.row.text !== state.text || here.row.pair !== state.pair)) return null;
  const go = (row: Row): void => update(explainRow(row, model, set.id, state.rows), "push");
  const order = `by ${asked.order.column}`;
  return (
    <nav className="row-walk" aria-label="Rows of the data set">
      <button type="button" className="plain link" onClick={() => update({ page: "data", tab: "" }, "push")}>
        {set.name}
      </button>
      {here && (
        <>
          <span className="dim">
            row {grouped(here.row.number)} · {grouped(here.place)} of {grouped(here.of)} {order}
          </span>
          <Step words="‹ Previous row" title={order} row={here.before} onGo={go} />
          <Step words="Next row ›" title={order} row={here.after} onGo={go} />
          <span className="dim">
            {here.row.label === null ? "" : `label ${here.row.label}, `}
            predicted {here.row.predicted}
            {here.row.right === false && " ✕ wrong"}
          </span>
        </>
      )}
    </nav>
  );
}

interface StepProps {
  readonly words: string;
  readonly title: string;
  readonly row: Row | null;
  readonly onGo: (row: Row) => void;
}

function Step({ words, title, row, onGo }: StepProps) {
  return (
    <button
      type="button"
      className="small"
      title={row ? `${title}: ${row.text.slice(0, 80)}` : title}
      disabled={row === null}
      onClick={() => row && onGo(row)}
    >
      {words}
    </button>
  );
}
