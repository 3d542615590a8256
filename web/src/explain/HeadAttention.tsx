/** Attention of one head of a vision model over the patches: hook and choice of the head. */

import { useMemo } from "react";

import type { Fault, Input } from "../api/types";
import type { PatchMap } from "../render/patches";
import { buildScale } from "../render/tint";
import { usePage } from "../shell/pageContext";
import { formatPercent } from "../shell/numberFormat";
import { useRequest } from "../shell/useRequest";
import type { Tensor } from "../source/source";
import { findModelEntry } from "./inputRequest";

interface HeadAttention {
  readonly map: PatchMap | null; // null: no head chosen, or pending
  readonly fault: Fault | null;
}

/** Request the attention of the head in the state, as a map over the patches. */
export function useHeadAttention(input: Input, [down, across]: readonly [number, number]): HeadAttention {
  const { source, session, state } = usePage();
  const { head } = state;
  const isWithin = findModelEntry(input, session)?.layers ?? null;
  const name = head === null || isWithin === null ? null : `attention.${head[0]}.${head[1]}`;
  const key = name && JSON.stringify([session.started, { ...input, target: null, of: null }, name]);
  const request = useRequest(key, (options) => source.tensors({ input, keys: [name ?? ""] }, options));
  const tensor = name === null ? null : (request.value?.get(name) ?? null);
  const map = useMemo(() => {
    if (tensor === null || name === null) return null;
    const { scores, who } = readPatchScores(tensor, down * across);
    const scale = buildScale({ word_scores: scores, signed: false });
    return {
      method: `head ${name.slice(10)}`,
      target: null,
      about: who,
      scores,
      scale: { ...scale, legend: `full colour: ${formatPercent(scale.high)} of the attention` },
    };
  }, [tensor, name, down, across]);
  return { map, fault: request.fault };
}

/** Read the class token's row, which is the first; without a class token, the mean of all rows. */
export function readPatchScores({ shape: [rows = 0, columns = 0], data }: Tensor, patches: number) {
  const lead = columns - patches;
  const at = (row: number, patch: number): number => data[row * columns + lead + patch] ?? 0;
  const places = Array.from({ length: patches }, (_, patch) => patch);
  if (lead > 0) return { scores: places.map((patch) => at(0, patch)), who: "attention of the class token" };
  const means = places.map(
    (patch) => Array.from({ length: rows }, (_, row) => at(row, patch)).reduce((a, b) => a + b, 0) / rows,
  );
  return { scores: means, who: "attention, mean of all patches" };
}

/** Choose the head whose attention is drawn. */
export function HeadChoice({ input }: { readonly input: Input }) {
  const { session, source, state, update } = usePage();
  const entry = findModelEntry(input, session);
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
