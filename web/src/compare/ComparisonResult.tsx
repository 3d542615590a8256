/** Result of a comparison over a data set: statistics, layers and heads. */

import { useCallback, useState } from "react";

import type { Comparison } from "../api/types";
import { drawBars } from "../render/bars";
import { formatCaption } from "../render/caption";
import { drawHeadGrid } from "../render/headGrid";
import type { Theme } from "../render/scene";
import { usePage } from "../shell/pageContext";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { formatCount, formatEstimate, formatFixed } from "../shell/numberFormat";
import { Table } from "../shell/Table";
import { formatToday } from "../shell/today";
import {
  BY_DIVERGENCE,
  HEAD_DATA_COLUMNS,
  HEAD_DATA_FORMATS,
  buildHeadDataRows,
  findMaximum,
  LAYER_DATA_COLUMNS,
  LAYER_DATA_FORMATS,
  buildLayerDataRows,
  buildMeanGrid,
} from "./changeTables";
import { KindTable, Overlap, Outcomes, WordAgreement } from "./ComparisonStatistics";
import { shortenModelNames } from "./modelPair";

interface Props {
  readonly comparison: Comparison;
  readonly names: readonly [string, string];
}

const STATISTICS = { divergence: "all rows", decision: "the decision's row" } as const;
type StatisticName = keyof typeof STATISTICS;

/** Show the statistics, layers and heads of a comparison. */
export function ComparisonResult({ comparison, names }: Props) {
  const [which, setWhich] = useState<StatisticName>("divergence");
  return (
    <div className="comparison">
      <p className="sentence">{shortenModelNames(comparison.sentence, comparison, names)}</p>
      <div className="columns">
        <Overlap comparison={comparison} names={names} />
        <WordAgreement comparison={comparison} names={names} />
        <Outcomes comparison={comparison} names={names} />
      </div>
      <fieldset className="choices">
        <legend>Divergence of</legend>
        {(Object.keys(STATISTICS) as StatisticName[]).map((name) => (
          <label key={name}>
            <input
              type="radio"
              name="divergence-of"
              checked={which === name}
              onChange={() => setWhich(name)}
            />
            {STATISTICS[name]}
          </label>
        ))}
      </fieldset>
      <div className="columns">
        <LayerTable comparison={comparison} names={names} which={which} />
        <HeadTable comparison={comparison} names={names} which={which} />
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
            rows={buildLayerDataRows(comparison)}
            formats={LAYER_DATA_FORMATS}
            file={{ name: "layers", caption: buildCaption("Layers", comparison, names) }}
          />
        </div>
        <div className="panel">
          <Table
            caption={`${formatCount(comparison.heads.length, "head")}, the most changed first`}
            columns={HEAD_DATA_COLUMNS}
            rows={buildHeadDataRows(comparison)}
            formats={HEAD_DATA_FORMATS}
            first={BY_DIVERGENCE}
            most={12}
            file={{ name: "heads", caption: buildCaption("Heads", comparison, names) }}
          />
        </div>
      </div>
    </div>
  );
}

interface StatisticProps extends Props {
  readonly which: StatisticName;
}

function LayerTable({ comparison, names, which }: StatisticProps) {
  const title = `Divergence by layer, ${STATISTICS[which]}, bits`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      drawBars(
        comparison.layers.map((layer) => ({
          label: `layer ${layer.layer}`,
          value: layer[which].mean,
          low: layer[which].low,
          high: layer[which].high,
          title: `layer ${layer.layer}: ${formatEstimate(layer[which], formatFixed)} bits; different heads of it are ${formatEstimate(layer.strangers, formatFixed)} apart`,
        })),
        { width, theme, title, least: 0, axis: true, format: formatFixed },
      ),
    [comparison, which, title],
  );
  return (
    <section className="panel">
      <h3>{title}</h3>
      <ResponsivePicture
        name="layers"
        caption={buildCaption(title, comparison, names)}
        draw={draw}
        most={640}
      />
    </section>
  );
}

function HeadTable({ comparison, names, which }: StatisticProps) {
  const { state, update } = usePage();
  const title = `Divergence by head, ${STATISTICS[which]}, bits`;
  const draw = useCallback(
    (theme: Theme, width: number) => {
      const values = buildMeanGrid(comparison.heads, which);
      return drawHeadGrid(
        { title, values, low: 0, high: findMaximum(values), signed: false },
        { width, theme, ...(state.head ? { selected: state.head } : {}) },
      );
    },
    [comparison, which, title, state.head],
  );
  return (
    <section className="panel">
      <h3>{title}</h3>
      <ResponsivePicture
        name="heads"
        caption={buildCaption(title, comparison, names)}
        draw={draw}
        most={520}
        onHit={(hit) => hit.kind === "head" && update({ head: [hit.layer, hit.head] }, "replace")}
      />
    </section>
  );
}

function buildCaption(title: string, { data }: Comparison, names: Props["names"]): string {
  const used = data["used"];
  const n = typeof used === "number" ? `, n = ${used}` : "";
  return formatCaption({ model: `${names[0]} and ${names[1]}${n}`, what: title, date: formatToday() });
}
