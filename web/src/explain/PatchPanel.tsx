/** The picture under every method that was chosen, for one target or several side by side. */

import { useCallback, useMemo, useState } from "react";

import type { Explanations, Input, ShownPicture } from "../api/types";
import { type PatchMap, named, patches, strongest } from "../render/patches";
import type { Hit, Theme } from "../render/scene";
import { figure } from "../render/text";
import { scaleOf } from "../render/tint";
import { Drawn } from "../shell/Drawn";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/context";
import { useAsked } from "../shell/useAsked";
import { AgreementTable } from "./AgreementTable";
import { nameOf } from "./Legend";
import { MethodSwitch } from "./Methods";
import { Stale, panelClass } from "./Stale";
import { Warnings } from "./Warnings";
import { HeadChoice, useAttended } from "./attended";
import { namedOf } from "./fields";
import { usePixels } from "./usePixels";

interface Props {
  readonly input: Input;
  readonly explanations: Explanations;
  readonly picture: ShownPicture;
  readonly methods: readonly string[];
  readonly pending: boolean;
  readonly caption: string;
}

const MOST = 4; // targets side by side

export function PatchPanel({ input, explanations, picture, methods, pending, caption }: Props) {
  const { source, session, state, update } = usePage();
  const { strength, smooth, beside } = state;
  const [picked, setPicked] = useState<string | null>(null);
  const pixels = usePixels(picture);
  const target = nameOf(explanations.target);
  const inputs = beside.filter((label) => label !== target).map((label) => ({ ...input, target: label }));
  const asked = { methods: [...state.methods], inputs };
  const others = useAsked(inputs.length > 0 ? JSON.stringify([session.started, asked]) : null, (asking) =>
    Promise.all(asked.inputs.map((one) => source.explain({ input: one, methods: asked.methods }, asking))),
  );
  const { grid } = picture;
  const attended = useAttended(input, grid);
  const maps = useMemo(
    () => [
      ...[explanations, ...(others.value ?? [])].flatMap(mapsOf),
      ...(attended.map ? [attended.map] : []),
    ],
    [explanations, others.value, attended.map],
  );
  const name = picture.name ?? "picture";
  const draw = useCallback(
    (theme: Theme, width: number) =>
      pixels ? patches({ picture: pixels, grid, maps, name }, { width, theme, strength, smooth }) : EMPTY,
    [pixels, grid, maps, name, strength, smooth],
  );
  const pick = (hit: Hit): void => {
    if (hit.kind === "cell") setPicked(told(hit.row, hit.column, maps, grid));
  };
  const isOld = pending || others.pending;
  const targets = namedOf(explanations).filter((label) => label !== target && !beside.includes(label));
  const whyNot = source.reach && !source.reach.target ? source.reach.why : null;
  return (
    <section className={panelClass("text", isOld)} aria-labelledby="text" aria-busy={isOld}>
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
            disabled={whyNot !== null || beside.length + 1 >= MOST || targets.length === 0}
            title={whyNot ?? "Show the maps of another target below"}
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
        <Stale isOld={isOld} />
      </div>
      <Warnings explanations={explanations} />
      {attended.fault && <FaultNote fault={attended.fault} />}
      {others.fault && <FaultNote fault={others.fault} onAgain={others.again} />}
      {pixels ? (
        <>
          <Drawn name="patches" caption={caption} draw={draw} onHit={pick} />
          <p className={picked ? "chosen" : "chosen dim"} role="status">
            {picked ?? "Point at a patch, or walk to it with the arrow keys: its numbers stand here."}
          </p>
          {maps.map((map) =>
            map.scale.note ? (
              <p key={named(map)} className="dim">
                {named(map)}: {map.scale.note}
              </p>
            ) : null,
          )}
          <p className="unseen">{maps.map((map) => strongest(map, grid[1])).join(" ")}</p>
        </>
      ) : (
        <p className="dim">The picture is being read …</p>
      )}
      <AgreementTable agreement={explanations.agreement} caption={caption} units="patches" />
    </section>
  );
}

function mapsOf({ explanations, target }: Explanations): readonly PatchMap[] {
  return explanations.map((one) => ({
    method: one.method,
    target: nameOf(target),
    scores: one.scores,
    scale: scaleOf({ word_scores: one.scores, signed: one.signed, scale: one.scale }),
  }));
}

/** What all maps say of the patch that was chosen in one of them. */
function told(
  row: number,
  column: number,
  maps: readonly PatchMap[],
  [down, across]: [number, number],
): string {
  const patch = (row % down) * across + column;
  const said = maps.map((map) => `${named(map)}: ${figure(map.scores[patch] ?? 0)}`);
  return `Row ${(row % down) + 1}, column ${column + 1}: ${said.join("; ")}.`;
}

const EMPTY = { width: 1, height: 1, marks: [], label: "", table: { columns: [], rows: [] }, edges: [] };
