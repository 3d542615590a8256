/** Heads whose attention changed: a map by Jensen-Shannon divergence, and tables of heads and layers. */

import { useCallback, useState } from "react";

import type { InputComparisonData } from "../api/types";
import { drawHeadGrid } from "../render/headGrid";
import type { Theme } from "../render/scene";
import { usePage } from "../shell/pageContext";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { Table } from "../shell/Table";
import {
  HEAD_COLUMNS,
  HEAD_FORMATS,
  buildHeadRows,
  findMaximum,
  LAYER_COLUMNS,
  LAYER_FORMATS,
  buildLayerRows,
} from "./changeTables";

interface Props {
  readonly comparison: InputComparisonData;
  readonly names: readonly [string, string];
}

const ROWS = { divergence: "all rows", decision: "the decision's row" } as const;

/** Show the map of changes, and the matrix of the head that is selected. */
export function HeadChanges({ comparison, names }: Props) {
  const { state, update } = usePage();
  const [rows, setRows] = useState<keyof typeof ROWS>("divergence");
  const values = comparison[rows];
  const title = `Jensen-Shannon divergence, ${ROWS[rows]}, bits`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      drawHeadGrid(
        { title, values, low: 0, high: findMaximum(values), signed: false },
        { width, theme, ...(state.head ? { selected: state.head } : {}) },
      ),
    [title, values, state.head],
  );
  return (
    <section className="panel" aria-label="Changed heads">
      <h2>Heads that changed</h2>
      <fieldset className="choices">
        <legend className="unseen">Rows compared</legend>
        {Object.entries(ROWS).map(([name, words]) => (
          <label key={name}>
            <input
              type="radio"
              name="rows-compared"
              checked={rows === name}
              onChange={() => setRows(name as keyof typeof ROWS)}
            />
            {words}
          </label>
        ))}
      </fieldset>
      <ResponsivePicture
        name="divergence"
        caption={`${title}; ${names[0]} and ${names[1]}`}
        draw={draw}
        most={520}
        onHit={(hit) => hit.kind === "head" && update({ head: [hit.layer, hit.head] }, "replace")}
      />
      <p className="dim">
        0 is the same attention, 1 bit nothing in common. Choose a head to see its matrix.
      </p>
    </section>
  );
}

/** Tables of the most changed heads and layers. */
export function ChangeTables({ comparison, names }: Props) {
  const { update } = usePage();
  return (
    <section className="panel" aria-label="Most changed">
      <h2>Most changed</h2>
      {comparison.changed.length === 0 ? (
        <p className="empty">None: no head of one model attends otherwise than its twin.</p>
      ) : (
        <>
          <Table
            caption="Heads, the most changed first"
            columns={HEAD_COLUMNS}
            rows={buildHeadRows(comparison)}
            formats={HEAD_FORMATS}
            file={{
              name: "changed-heads",
              caption: `Heads, the most changed first; ${names[0]} and ${names[1]}`,
            }}
            most={8}
            onRow={(index) => {
              const row = comparison.changed[index];
              if (row) update({ head: [row.layer, row.head] }, "replace");
            }}
          />
          <Table
            caption="Layers, the most changed first"
            columns={LAYER_COLUMNS}
            rows={buildLayerRows(comparison)}
            formats={LAYER_FORMATS}
            most={12}
          />
        </>
      )}
    </section>
  );
}
