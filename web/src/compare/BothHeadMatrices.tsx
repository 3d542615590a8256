/** Attention matrix of one head in both models: in A, in B, or their difference. */

import { useCallback, useState } from "react";

import type { Token } from "../api/types";
import { drawMatrix } from "../render/matrix";
import type { Theme } from "../render/scene";
import { usePage } from "../shell/pageContext";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { FaultNote } from "../shell/FaultNote";
import { useRequest } from "../shell/useRequest";
import type { HeadId } from "../state/state";
import type { ModelPair } from "./modelPair";

const MODES = { difference: "B − A", a: "A", b: "B" } as const;
type Mode = keyof typeof MODES;

interface Props {
  readonly head: HeadId;
  readonly models: ModelPair;
  readonly names: readonly [string, string];
  readonly tokens: readonly Token[];
  readonly text: string;
  readonly pair: string | null;
}

/** Draw one head's attention in A, in B, or the difference. */
export function BothHeadMatrices({ head: [layer, head], models, names, tokens, text, pair }: Props) {
  const { source } = usePage();
  const [mode, setMode] = useState<Mode>("difference");
  const key = `attention.${layer}.${head}`;
  const maps = useRequest(JSON.stringify([key, models, text, pair]), (options) =>
    Promise.all(
      [models.a, models.b].map(async (model) => {
        const input = { model, text, pair, target: null, of: "logit" as const, truncate: true };
        return (await source.tensors({ input, keys: [key] }, options)).get(key)?.data ?? null;
      }),
    ),
  );
  const [a, b] = maps.value ?? [];
  const title = `Layer ${layer}, head ${head}: ${mode === "difference" ? `${names[1]} − ${names[0]}` : names[mode === "a" ? 0 : 1]}`;
  const draw = useCallback(
    (theme: Theme, width: number) => {
      const values = mode === "b" ? b : a;
      const other = mode === "difference" ? b : null;
      return drawMatrix(
        {
          values: values instanceof Float32Array ? values : new Float32Array(),
          ...(other instanceof Float32Array ? { other } : {}),
          tokens: [...tokens],
          title,
        },
        { width, theme },
      );
    },
    [a, b, mode, tokens, title],
  );
  return (
    <section className="panel" aria-label="Matrix of one head">
      <h2>
        Layer {layer}, head {head}
      </h2>
      <fieldset className="choices">
        <legend className="unseen">Which map</legend>
        {(Object.keys(MODES) as Mode[]).map((name) => (
          <label key={name}>
            <input type="radio" name="matrix-of" checked={mode === name} onChange={() => setMode(name)} />
            {MODES[name]}
          </label>
        ))}
      </fieldset>
      {maps.fault && <FaultNote fault={maps.fault} onRetry={maps.retry} />}
      {a && b ? (
        <ResponsivePicture name={`matrix-${layer}-${head}`} caption={title} draw={draw} most={560} />
      ) : (
        !maps.fault && <p className="empty">Fetching both maps …</p>
      )}
    </section>
  );
}
