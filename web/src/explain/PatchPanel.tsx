/** Picture panel: score maps over the image by method and target, head attention, colour controls, patch scores. */

import { useCallback, useMemo, useState } from "react";

import type { Explanations, Input, ExplainedImage } from "../api/types";
import { type PatchMap, describeMap, drawPatches, describeStrongest } from "../render/patches";
import type { Hit, Theme } from "../render/scene";
import { formatSignificant } from "../render/text";
import { buildScale } from "../render/tint";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/pageContext";
import { useRequest } from "../shell/useRequest";
import { AgreementTable } from "./AgreementTable";
import { formatTargetName } from "./Legend";
import { MethodSwitch } from "./MethodSwitch";
import { StaleNote, getPanelClass } from "./StaleNote";
import { Warnings } from "./Warnings";
import { HeadChoice, useHeadAttention } from "./HeadAttention";
import { listOutputNames } from "./inputFields";
import { usePixels } from "./usePixels";

interface Props {
  readonly input: Input;
  readonly explanations: Explanations;
  readonly picture: ExplainedImage;
  readonly methods: readonly string[];
  readonly pending: boolean;
  readonly caption: string;
}

const MOST = 4; // targets side by side

/** Show the score maps of an image, and the attention of a head. */
export function PatchPanel({ input, explanations, picture, methods, pending, caption }: Props) {
  const { source, session, state, update } = usePage();
  const { strength, smooth, beside } = state;
  const [picked, setPicked] = useState<string | null>(null);
  const pixels = usePixels(picture);
  const target = formatTargetName(explanations.target);
  const inputs = beside.filter((label) => label !== target).map((label) => ({ ...input, target: label }));
  const request = { methods: [...state.methods], inputs };
  const others = useRequest(
    inputs.length > 0 ? JSON.stringify([session.started, request]) : null,
    (options) =>
      Promise.all(
        request.inputs.map((one) => source.explain({ input: one, methods: request.methods }, options)),
      ),
  );
  const { grid } = picture;
  const headAttention = useHeadAttention(input, grid);
  const maps = useMemo(
    () => [
      ...[explanations, ...(others.value ?? [])].flatMap(buildMaps),
      ...(headAttention.map ? [headAttention.map] : []),
    ],
    [explanations, others.value, headAttention.map],
  );
  const name = picture.name ?? "picture";
  const draw = useCallback(
    (theme: Theme, width: number) =>
      pixels ? drawPatches({ picture: pixels, grid, maps, name }, { width, theme, strength, smooth }) : EMPTY,
    [pixels, grid, maps, name, strength, smooth],
  );
  const pick = (hit: Hit): void => {
    if (hit.kind === "cell") setPicked(describePatch(hit.row, hit.column, maps, grid));
  };
  const isStale = pending || others.pending;
  const targets = listOutputNames(explanations).filter(
    (label) => label !== target && !beside.includes(label),
  );
  const disabledReason = source.reach && !source.reach.target ? source.reach.why : null;
  return (
    <section className={getPanelClass("text", isStale)} aria-labelledby="text" aria-busy={isStale}>
      <div className="head">
        <h2 id="text">Picture</h2>
        <MethodSwitch names={methods} chosen={state.methods} onChange={(next) => update({ methods: next })} />
        <label className="field">
          Colours{" "}
          <input
            type="range"
            min={0}
            max={1}
            step={0.05}
            value={strength}
            aria-valuetext={`${Math.round(100 * strength)}%`}
            onChange={(event) => update({ strength: event.target.valueAsNumber }, "replace")}
          />
        </label>
        <label className="field">
          <input type="checkbox" checked={smooth} onChange={() => update({ smooth: !smooth })} /> smooth
        </label>
        <label className="field">
          <span className="unseen">Another target beside this one</span>
          <select
            value=""
            disabled={disabledReason !== null || beside.length + 1 >= MOST || targets.length === 0}
            title={disabledReason ?? "Show the maps of another target below"}
            onChange={(event) => update({ beside: [...beside, event.target.value] })}
          >
            <option value="">+ another target</option>
            {targets.map((label) => (
              <option key={label}>{label}</option>
            ))}
          </select>
        </label>
        {beside.map((label) => (
          <button
            key={label}
            type="button"
            className="small"
            aria-label={`Take ${label} away`}
            onClick={() => update({ beside: beside.filter((each) => each !== label) })}
          >
            {label} ×
          </button>
        ))}
        <HeadChoice input={input} />
        <StaleNote isStale={isStale} />
      </div>
      <Warnings explanations={explanations} />
      {headAttention.fault && <FaultNote fault={headAttention.fault} />}
      {others.fault && <FaultNote fault={others.fault} onRetry={others.retry} />}
      {pixels ? (
        <>
          <ResponsivePicture name="patches" caption={caption} draw={draw} onHit={pick} />
          <p className={picked ? "chosen" : "chosen dim"} role="status">
            {picked ?? "Point at a patch, or walk to it with the arrow keys: its numbers stand here."}
          </p>
          {maps.map((map) =>
            map.scale.note ? (
              <p key={describeMap(map)} className="dim">
                {describeMap(map)}: {map.scale.note}
              </p>
            ) : null,
          )}
          <p className="unseen">{maps.map((map) => describeStrongest(map, grid[1])).join(" ")}</p>
        </>
      ) : (
        <p className="dim">The picture is being read …</p>
      )}
      <AgreementTable agreement={explanations.agreement} caption={caption} features="patches" />
    </section>
  );
}

function buildMaps({ explanations, target }: Explanations): readonly PatchMap[] {
  return explanations.map((one) => ({
    method: one.method,
    target: formatTargetName(target),
    scores: one.scores,
    scale: buildScale({ word_scores: one.scores, signed: one.signed, scale: one.scale }),
  }));
}

/** Describe one patch by its score in every map. */
function describePatch(
  row: number,
  column: number,
  maps: readonly PatchMap[],
  [down, across]: [number, number],
): string {
  const patch = (row % down) * across + column;
  const sentences = maps.map((map) => `${describeMap(map)}: ${formatSignificant(map.scores[patch] ?? 0)}`);
  return `Row ${(row % down) + 1}, column ${column + 1}: ${sentences.join("; ")}.`;
}

const EMPTY = { width: 1, height: 1, marks: [], label: "", table: { columns: [], rows: [] }, edges: [] };
