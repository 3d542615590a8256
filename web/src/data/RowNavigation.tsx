/** Navigation between the rows of a data set inside the workbench: previous, next, back to the table. */

import type { PredictionData } from "../api/types";
import { isServer, usePage } from "../shell/pageContext";
import { formatWhole } from "../shell/numberFormat";
import { getCachedOutcome } from "../shell/useJobCache";
import { explainRow } from "./explainRow";
import { buildPredictKey } from "./jobKeys";
import { resolveLimit } from "./RowLimit";
import { MAX_PREDICTION_ROWS, DEFAULT_PREDICTION_ROWS } from "./jobLimits";
import { findNeighbours } from "./neighbours";
import { parseRowQuery } from "./rowQuery";
import type { Row } from "./rows";
import "./data.css";

/** Show which row is explained, with links to its neighbours; nothing where no row is open. */
export function RowNavigation() {
  const { source, session, state, update } = usePage();
  const query = parseRowQuery(state.rows);
  const set = session.data.find(({ id }) => id === state.data);
  if (!isServer(source) || query.at === null || set === undefined) return null;
  const model = state.model || (session.models[0]?.id ?? "");
  const limit = resolveLimit(query.predict, set.rows, DEFAULT_PREDICTION_ROWS, MAX_PREDICTION_ROWS);
  const predictions = getCachedOutcome<PredictionData>(buildPredictKey(session, set, model, limit));
  const here = predictions && findNeighbours(predictions.rows, query);
  // Another text was typed since: the row is no longer open.
  if (here && (here.row.text !== state.text || here.row.pair !== state.pair)) return null;
  const go = (row: Row): void => update(explainRow(row, model, set.id, state.rows), "push");
  const order = `by ${query.order.column}`;
  return (
    <nav className="row-walk" aria-label="Rows of the data set">
      <button type="button" className="plain link" onClick={() => update({ page: "data", tab: "" }, "push")}>
        {set.name}
      </button>
      {here && (
        <>
          <span className="dim">
            row {formatWhole(here.row.number)} · {formatWhole(here.place)} of {formatWhole(here.of)} {order}
          </span>
          <StepButton words="‹ Previous row" title={order} row={here.before} onGo={go} />
          <StepButton words="Next row ›" title={order} row={here.after} onGo={go} />
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

interface StepButtonProps {
  readonly words: string;
  readonly title: string;
  readonly row: Row | null;
  readonly onGo: (row: Row) => void;
}

function StepButton({ words, title, row, onGo }: StepButtonProps) {
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
