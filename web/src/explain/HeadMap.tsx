/** Head panel: a statistic or attention thumbnail of each head, ablation job; click opens, shift-click filters. */

import { useCallback } from "react";

import type { Heads, Input } from "../api/types";
import { drawHeadGrid, drawThumbnails } from "../render/headGrid";
import type { Hit, Theme } from "../render/scene";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { FaultNote } from "../shell/FaultNote";
import { JobProgress } from "../shell/JobProgress";
import { usePage } from "../shell/pageContext";
import { useRequest } from "../shell/useRequest";
import { useJobCache } from "../shell/useJobCache";
import { STATISTICS, listNames } from "../state/choices";
import { StaleNote, getPanelClass } from "./StaleNote";
import { toggleHead } from "./queryLanguage";

interface Props {
  readonly input: Input;
  readonly caption: string;
}

/** Show the map of heads, and the matrix of the head that is open. */
export function HeadMap({ input, caption }: Props) {
  const { source, session, state, update, theme } = usePage();
  const { statistic, thumbnails: small } = state;
  const key = JSON.stringify([
    session.started,
    statistic === "gradient" || statistic === "ablation" ? input : { ...input, target: null },
    statistic,
  ]);
  const isJob = statistic === "ablation";
  const request = useRequest(!small && !isJob ? key : null, (options) =>
    source.heads({ input, statistic }, options),
  );
  const job = useJobCache<Heads>(key);
  const tensors = useRequest(
    small ? JSON.stringify([session.started, { ...input, target: null, of: null }]) : null,
    (options) => source.tensors({ input, keys: ["thumbnails"] }, options),
  );
  const heads = isJob ? job.value : request.value;
  const maps = tensors.value?.get("thumbnails") ?? null;
  const reach = source.reach;

  const choose = useCallback(
    (hit: Hit, { add }: { readonly add: boolean }) => {
      if (hit.kind !== "head") return;
      const id = [hit.layer, hit.head] as const;
      const same = state.head?.[0] === hit.layer && state.head[1] === hit.head;
      update(add ? { heads: toggleHead(state.heads, id) } : { head: same ? null : id });
    },
    [state.head, state.heads, update],
  );
  const draw = useCallback(
    (theme: Theme, width: number) => {
      const options = { width, theme, selected: state.head };
      if (small && maps) {
        const [layers = 0, count = 0, size = 0] = maps.shape;
        return drawThumbnails({ layers, heads: count, size, pixels: Uint8Array.from(maps.data) }, options);
      }
      return drawHeadGrid(heads ?? NONE, options);
    },
    [small, maps, heads, state.head],
  );
  const fault = small ? tensors.fault : isJob ? job.fault : request.fault;
  const pending = small ? tensors.pending : isJob ? job.running : request.pending;
  const ready = small ? maps !== null : heads !== null && heads.statistic === statistic;
  const isStale = pending && ready;
  return (
    <section className={getPanelClass("heads", isStale)} aria-labelledby="heads" aria-busy={pending}>
      <h2 id="heads">Heads</h2>
      <StaleNote isStale={isStale} />
      <p className="controls">
        <label>
          <span className="unseen">One number per head</span>
          <select
            value={small ? "thumbnails" : statistic}
            onChange={({ target: { value } }) => {
              const chosenStatistic = listNames(STATISTICS).find((each) => each === value);
              update(
                chosenStatistic ? { statistic: chosenStatistic, thumbnails: false } : { thumbnails: true },
              );
            }}
          >
            {listNames(STATISTICS).map((name) => (
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
      {fault && <FaultNote fault={fault} onRetry={small ? tensors.retry : request.retry} />}
      {isJob && !small && job.running && <JobProgress job={job.job} onCancel={job.cancel} />}
      {isJob && !small && !job.running && !job.value && (
        <>
          <p>What becomes of the target when a head is switched off? The model runs once for each of them.</p>
          <button
            type="button"
            onClick={() => job.run((options) => source.heads({ input, statistic }, options))}
          >
            Switch each head off
          </button>
        </>
      )}
      {ready && (
        <>
          <ResponsivePicture name="heads" caption={caption} draw={draw} onHit={choose} />
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
