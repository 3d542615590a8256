/** Which heads attend otherwise: a map by Jensen-Shannon divergence, and the most changed heads and layers. */

import { useCallback, useState } from "react";

import type { Compared } from "../api/types";
import { headmap } from "../render/headmap";
import type { Theme } from "../render/scene";
import { usePage } from "../shell/context";
import { Drawn } from "../shell/Drawn";
import { Table } from "../shell/Table";
import {
  HEAD_COLUMNS,
  HEAD_UNITS,
  headRows,
  highest,
  LAYER_COLUMNS,
  LAYER_UNITS,
  layerRows,
} from "./changed";

interface Props {
  readonly compared: Compared;
  readonly names: readonly [string, string];
}

const ROWS = { divergence: "all rows", decision: "the decision's row" } as const;

export function HeadChanges({ compared, names }: Props) {
  const { state, update } = usePage();
  const [rows, setRows] = useState<keyof typeof ROWS>("divergence");
  const values = compared[rows];
  const title = `Jensen-Shannon divergence, ${ROWS[rows]}, bits`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      headmap(
        { title, values, low: 0, high: highest(values), signed: false },
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
      <Drawn
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

export function ChangedTables({ compared, names }: Props) {
  const { update } = usePage();
  return (
    <section className="panel" aria-label="Most changed">
      <h2>Most changed</h2>
      {compared.changed.length === 0 ? (
        <p className="empty">None: no head of one model attends otherwise than its twin.</p>
      ) : (
        <>
          <Table
            caption="Heads, the most changed first"
            columns={HEAD_COLUMNS}
            rows={headRows(compared)}
            written={HEAD_UNITS}
            file={{
              name: "changed-heads",
              caption: `Heads, the most changed first; ${names[0]} and ${names[1]}`,
            }}
            most={8}
            onRow={(index) => {
              const row = compared.changed[index];
              if (row) update({ head: [row.layer, row.head] }, "replace");
            }}
          />
          <Table
            caption="Layers, the most changed first"
            columns={LAYER_COLUMNS}
            rows={layerRows(compared)}
            written={LAYER_UNITS}
            most={12}
          />
        </>
      )}
    </section>
  );
}
