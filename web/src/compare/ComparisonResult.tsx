/** What a comparison over a data set found. */

import { useCallback, useState } from "react";

import type { Comparison } from "../api/types";
import { bars } from "../render/bars";
import { caption } from "../render/caption";
import { headmap } from "../render/headmap";
import type { Theme } from "../render/scene";
import { usePage } from "../shell/context";
import { Drawn } from "../shell/Drawn";
import { count, figure, fixed } from "../shell/figures";
import { Table } from "../shell/Table";
import { today } from "../shell/today";
import {
  BY_DIVERGENCE,
  HEAD_DATA_COLUMNS,
  HEAD_DATA_UNITS,
  headDataRows,
  highest,
  LAYER_DATA_COLUMNS,
  LAYER_DATA_UNITS,
  layerDataRows,
  meanGrid,
} from "./changed";
import { KindTable, Overlap, Outcomes, Agreement } from "./ComparisonFigures";
import { shortened } from "./models";

interface Props {
  readonly comparison: Comparison;
  readonly names: readonly [string, string];
}

const FIGURES = { divergence: "all rows", decision: "the decision's row" } as const;
type Figure = keyof typeof FIGURES;

export function ComparisonView({ comparison, names }: Props) {
  const [which, setWhich] = useState<Figure>("divergence");
  return (
    <div className="comparison">
      <p className="sentence">{shortened(comparison.sentence, comparison, names)}</p>
      <div className="columns">
        <Overlap comparison={comparison} names={names} />
        <Agreement comparison={comparison} names={names} />
        <Outcomes comparison={comparison} names={names} />
      </div>
      <fieldset className="choices">
        <legend>Divergence of</legend>
        {(Object.keys(FIGURES) as Figure[]).map((name) => (
          <label key={name}>
            <input
              type="radio"
              name="divergence-of"
              checked={which === name}
              onChange={() => setWhich(name)}
            />
            {FIGURES[name]}
          </label>
        ))}
      </fieldset>
      <div className="columns">
        <Layers comparison={comparison} names={names} which={which} />
        <Heads comparison={comparison} names={names} which={which} />
      </div>
      <div className="columns">
        <KindTable title="Attention to special tokens" rows={comparison.specials} names={names} />
        <KindTable title="Attention between the texts of a pair" rows={comparison.segments} names={names} />
      </div>
      <div className="columns of-tables">
        <div className="panel">
          <Table
            caption="Layers, beside how far different heads are apart, and what random edges would share"
            columns={LAYER_DATA_COLUMNS}
            rows={layerDataRows(comparison)}
            written={LAYER_DATA_UNITS}
            file={{ name: "layers", caption: captionOf("Layers", comparison, names) }}
          />
        </div>
        <div className="panel">
          <Table
            caption={`${count(comparison.heads.length, "head")}, the most changed first`}
            columns={HEAD_DATA_COLUMNS}
            rows={headDataRows(comparison)}
            written={HEAD_DATA_UNITS}
            first={BY_DIVERGENCE}
            most={12}
            file={{ name: "heads", caption: captionOf("Heads", comparison, names) }}
          />
        </div>
      </div>
    </div>
  );
}

interface WhichProps extends Props {
  readonly which: Figure;
}

function Layers({ comparison, names, which }: WhichProps) {
  const title = `Divergence by layer, ${FIGURES[which]}, bits`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      bars(
        comparison.layers.map((layer) => ({
          label: `layer ${layer.layer}`,
          value: layer[which].mean,
          low: layer[which].low,
          high: layer[which].high,
          title: `layer ${layer.layer}: ${figure(layer[which], fixed)} bits; different heads of it are ${figure(layer.strangers, fixed)} apart`,
        })),
        { width, theme, title, least: 0, axis: true, written: fixed },
      ),
    [comparison, which, title],
  );
  return (
    <section className="panel">
      <h3>{title}</h3>
      <Drawn name="layers" caption={captionOf(title, comparison, names)} draw={draw} most={640} />
    </section>
  );
}

function Heads({ comparison, names, which }: WhichProps) {
  const { state, update } = usePage();
  const title = `Divergence by head, ${FIGURES[which]}, bits`;
  const draw = useCallback(
    (theme: Theme, width: number) => {
      const values = meanGrid(comparison.heads, which);
      return headmap(
        { title, values, low: 0, high: highest(values), signed: false },
        { width, theme, ...(state.head ? { selected: state.head } : {}) },
      );
    },
    [comparison, which, title, state.head],
  );
  return (
    <section className="panel">
      <h3>{title}</h3>
      <Drawn
        name="heads"
        caption={captionOf(title, comparison, names)}
        draw={draw}
        most={520}
        onHit={(hit) => hit.kind === "head" && update({ head: [hit.layer, hit.head] }, "replace")}
      />
    </section>
  );
}

function captionOf(title: string, { data }: Comparison, names: Props["names"]): string {
  const used = data["used"];
  const n = typeof used === "number" ? `, n = ${used}` : "";
  return caption({ model: `${names[0]} and ${names[1]}${n}`, what: title, date: today() });
}
