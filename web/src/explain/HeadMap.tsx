/** All heads at once: one number for each, or its attention in small. Click one to see it, shift-click to filter by it. */

import { useCallback } from "react";

import type { Heads, Input } from "../api/types";
import { headmap, thumbnails } from "../render/headmap";
import type { Hit, Theme } from "../render/scene";
import { Drawn } from "../shell/Drawn";
import { FaultNote } from "../shell/FaultNote";
import { JobLine } from "../shell/JobLine";
import { usePage } from "../shell/context";
import { useAsked } from "../shell/useAsked";
import { useKeptJob } from "../shell/useKeptJob";
import { STATISTICS, namesOf } from "../state/choices";
import { Stale, panelClass } from "./Stale";
import { toggled } from "./query";

interface Props {
  readonly input: Input;
  readonly caption: string;
}

export function HeadMap({ input, caption }: Props) {
  const { source, session, state, update, theme } = usePage();
  const { statistic, thumbnails: small } = state;
  const key = JSON.stringify([
    session.started,
    statistic === "gradient" || statistic === "ablation" ? input : { ...input, target: null },
    statistic,
  ]);
  const isJob = statistic === "ablation";
  const asked = useAsked(!small && !isJob ? key : null, (asking) =>
    source.heads({ input, statistic }, asking),
  );
  const job = useKeptJob<Heads>(key);
  const tensors = useAsked(
    small ? JSON.stringify([session.started, { ...input, target: null, of: null }]) : null,
    (asking) => source.tensors({ input, keys: ["thumbnails"] }, asking),
  );
  const heads = isJob ? job.value : asked.value;
  const maps = tensors.value?.get("thumbnails") ?? null;
  const reach = source.reach;

  const choose = useCallback(
    (hit: Hit, { add }: { readonly add: boolean }) => {
      if (hit.kind !== "head") return;
      const id = [hit.layer, hit.head] as const;
      const same = state.head?.[0] === hit.layer && state.head[1] === hit.head;
      update(add ? { heads: toggled(state.heads, id) } : { head: same ? null : id });
    },
    [state.head, state.heads, update],
  );
  const draw = useCallback(
    (theme: Theme, width: number) => {
      const options = { width, theme, selected: state.head };
      if (small && maps) {
        const [layers = 0, count = 0, size = 0] = maps.shape;
        return thumbnails({ layers, heads: count, size, pixels: Uint8Array.from(maps.data) }, options);
      }
      return headmap(heads ?? NONE, options);
    },
    [small, maps, heads, state.head],
  );
  const fault = small ? tensors.fault : isJob ? job.fault : asked.fault;
  const pending = small ? tensors.pending : isJob ? job.running : asked.pending;
  const ready = small ? maps !== null : heads !== null && heads.statistic === statistic;
  const isOld = pending && ready;
  return (
    <section className={panelClass("heads", isOld)} aria-labelledby="heads" aria-busy={pending}>
      <h2 id="heads">Heads</h2>
      <Stale isOld={isOld} />
      <p className="controls">
        <label>
          <span className="unseen">One number per head</span>
          <select
            value={small ? "thumbnails" : statistic}
            onChange={({ target: { value } }) => {
              const found = namesOf(STATISTICS).find((each) => each === value);
              update(found ? { statistic: found, thumbnails: false } : { thumbnails: true });
            }}
          >
            {namesOf(STATISTICS).map((name) => (
              <option key={name} value={name} disabled={reach ? !reach.statistics.includes(name) : false}>
                {STATISTICS[name]}
              </option>
            ))}
            <option value="thumbnails" disabled={reach ? !reach.thumbnails : false}>
              thumbnails
            </option>
          </select>
        </label>
      </p>
      {fault && <FaultNote fault={fault} onAgain={small ? tensors.again : asked.again} />}
      {isJob && !small && job.running && <JobLine job={job.job} onCancel={job.cancel} />}
      {isJob && !small && !job.running && !job.value && (
        <>
          <p>What becomes of the target when a head is switched off? The model runs once for each of them.</p>
          <button
            type="button"
            onClick={() => job.run((asking) => source.heads({ input, statistic }, asking))}
          >
            Switch each head off
          </button>
        </>
      )}
      {ready && (
        <>
          <Drawn name="heads" caption={caption} draw={draw} onHit={choose} />
          <p className="dim">
            {small
              ? `${theme.name === "dark" ? "Brighter" : "Darker"} is more; each map is pooled by its largest entries.`
              : heads?.meaning}
          </p>
          <p className="dim">Click: that head’s map. Shift-click: flow through that head only.</p>
        </>
      )}
    </section>
  );
}

const NONE = { title: "", values: [], low: 0, high: 1, signed: false };
