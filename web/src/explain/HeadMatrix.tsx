/** Panel with the attention matrix of one head, requested from the source: every token to every token. */

import { useCallback } from "react";

import type { Input, Token } from "../api/types";
import { drawMatrix } from "../render/matrix";
import type { Theme } from "../render/scene";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/pageContext";
import { useRequest } from "../shell/useRequest";
import type { HeadId } from "../state/state";

interface Props {
  readonly input: Input;
  readonly head: HeadId;
  readonly tokens: readonly Token[];
  readonly caption: string;
}

/** Draw the attention matrix of one head. */
export function HeadMatrix({ input, head: [layer, head], tokens, caption }: Props) {
  const { source, session, update } = usePage();
  const name = `attention.${layer}.${head}`;
  const disabledReason = source.reach && !source.reach.matrices ? source.reach.why : null;
  const key = JSON.stringify([session.started, { ...input, target: null, of: null }, name]);
  const request = useRequest(disabledReason === null ? key : null, (options) =>
    source.tensors({ input, keys: [name] }, options),
  );
  const map = request.value?.get(name)?.data ?? null;
  const title = `layer ${layer}, head ${head}: who attends (rows) to whom (columns)`;
  const fits = map !== null && map.length === tokens.length ** 2;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      drawMatrix(
        { values: Float32Array.from(map ?? []), tokens: fits ? tokens : [], title },
        { width, theme },
      ),
    [map, fits, tokens, title],
  );
  return (
    <section className="panel matrix" aria-labelledby="matrix" aria-busy={request.pending}>
      <h2 id="matrix">
        Head {layer}.{head}
        <button type="button" className="small" onClick={() => update({ head: null })}>
          Close
        </button>
      </h2>
      {disabledReason && <p className="dim">{disabledReason}</p>}
      {request.fault && <FaultNote fault={request.fault} onRetry={request.retry} />}
      {fits && (
        <ResponsivePicture
          name={`head-${layer}-${head}`}
          caption={`${caption} · attention of layer ${layer}, head ${head}`}
          draw={draw}
        />
      )}
    </section>
  );
}
