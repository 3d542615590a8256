/** The attention of one head, from every token to every token. */

import { useCallback } from "react";

import type { Input, Token } from "../api/types";
import { matrix } from "../render/matrix";
import type { Theme } from "../render/scene";
import { Drawn } from "../shell/Drawn";
import { FaultNote } from "../shell/FaultNote";
import { usePage } from "../shell/context";
import { useAsked } from "../shell/useAsked";
import type { HeadId } from "../state/state";

interface Props {
  readonly input: Input;
  readonly head: HeadId;
  readonly tokens: readonly Token[];
  readonly caption: string;
}

export function HeadMatrix({ input, head: [layer, head], tokens, caption }: Props) {
  const { source, session, update } = usePage();
  const name = `attention.${layer}.${head}`;
  const whyNot = source.reach && !source.reach.matrices ? source.reach.why : null;
  const key = JSON.stringify([session.started, { ...input, target: null, of: null }, name]);
  const asked = useAsked(whyNot === null ? key : null, (asking) =>
    source.tensors({ input, keys: [name] }, asking),
  );
  const map = asked.value?.get(name)?.data ?? null;
  const title = `layer ${layer}, head ${head}: who attends (rows) to whom (columns)`;
  const fits = map !== null && map.length === tokens.length ** 2;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      matrix({ values: Float32Array.from(map ?? []), tokens: fits ? tokens : [], title }, { width, theme }),
    [map, fits, tokens, title],
  );
  return (
    <section className="panel matrix" aria-labelledby="matrix" aria-busy={asked.pending}>
      <h2 id="matrix">
        Head {layer}.{head}
        <button type="button" className="small" onClick={() => update({ head: null })}>
          Close
        </button>
      </h2>
      {whyNot && <p className="dim">{whyNot}</p>}
      {asked.fault && <FaultNote fault={asked.fault} onAgain={asked.again} />}
      {fits && (
        <Drawn
          name={`head-${layer}-${head}`}
          caption={`${caption} · attention of layer ${layer}, head ${head}`}
          draw={draw}
        />
      )}
    </section>
  );
}
