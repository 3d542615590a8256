/** Where one head of a picture model looks: the attention of the token that decides, over the patches. */

import { useMemo } from "react";

import type { Fault, Input } from "../api/types";
import type { PatchMap } from "../render/patches";
import { scaleOf } from "../render/tint";
import { usePage } from "../shell/context";
import { percent } from "../shell/figures";
import { useAsked } from "../shell/useAsked";
import type { Tensor } from "../source/source";
import { entryOf } from "./asked";

interface Attended {
  readonly map: PatchMap | null; // null: no head is chosen, or it is on its way
  readonly fault: Fault | null;
}

export function useAttended(input: Input, [down, across]: readonly [number, number]): Attended {
  const { source, session, state } = usePage();
  const { head } = state;
  const isWithin = entryOf(input, session)?.layers ?? null;
  const name = head === null || isWithin === null ? null : `attention.${head[0]}.${head[1]}`;
  const key = name && JSON.stringify([session.started, { ...input, target: null, of: null }, name]);
  const asked = useAsked(key, (asking) => source.tensors({ input, keys: [name ?? ""] }, asking));
  const tensor = name === null ? null : (asked.value?.get(name) ?? null);
  const map = useMemo(() => {
    if (tensor === null || name === null) return null;
    const { scores, who } = patchesOf(tensor, down * across);
    const scale = scaleOf({ word_scores: scores, signed: false });
    return {
      method: `head ${name.slice(10)}`,
      target: null,
      about: who,
      scores,
      scale: { ...scale, legend: `full colour: ${percent(scale.high)} of the attention` },
    };
  }, [tensor, name, down, across]);
  return { map, fault: asked.fault };
}

/** The row of the class token, which comes first; where there is none, the mean of all rows. */
export function patchesOf({ shape: [rows = 0, columns = 0], data }: Tensor, patches: number) {
  const lead = columns - patches;
  const at = (row: number, patch: number): number => data[row * columns + lead + patch] ?? 0;
  const places = Array.from({ length: patches }, (_, patch) => patch);
  if (lead > 0) return { scores: places.map((patch) => at(0, patch)), who: "attention of the class token" };
  const means = places.map(
    (patch) => Array.from({ length: rows }, (_, row) => at(row, patch)).reduce((a, b) => a + b, 0) / rows,
  );
  return { scores: means, who: "attention, mean of all patches" };
}

export function HeadChoice({ input }: { readonly input: Input }) {
  const { session, source, state, update } = usePage();
  const entry = entryOf(input, session);
  if (!entry?.layers || !entry.heads || (source.reach && !source.reach.matrices)) return null;
  const heads = Array.from({ length: entry.layers * entry.heads }, (_, number) => {
    const [layer, head] = [Math.floor(number / (entry.heads ?? 1)), number % (entry.heads ?? 1)];
    return `${layer}.${head}`;
  });
  return (
    <label className="field">
      <span className="unseen">Where a head looks</span>
      <select
        value={state.head?.join(".") ?? ""}
        onChange={(event) => {
          const [layer, head] = event.target.value.split(".").map(Number);
          update({ head: layer === undefined || head === undefined ? null : [layer, head] });
        }}
      >
        <option value="">+ attention of a head</option>
        {heads.map((name) => (
          <option key={name} value={name}>{`layer ${name.replace(".", ", head ")}`}</option>
        ))}
      </select>
    </label>
  );
}
