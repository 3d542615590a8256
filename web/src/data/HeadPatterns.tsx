/** Attention patterns of the heads: a map of all heads by kind of token, a table, and one head in detail. */

import { useCallback } from "react";

import type { AttentionPatterns } from "../api/types";
import { drawBars } from "../render/bars";
import { drawHeadGrid } from "../render/headGrid";
import type { Theme } from "../render/scene";
import { formatCount, formatEstimate, formatPercent } from "../shell/numberFormat";
import { usePage } from "../shell/pageContext";
import { ResponsivePicture } from "../shell/ResponsivePicture";
import { Table } from "../shell/Table";
import { shortenModelName } from "../shell/modelNames";
import {
  BY_SHARE,
  buildShareGrid,
  buildPatternRows,
  listPatternColumns,
  PATTERN_FORMATS,
  findTopHead,
} from "./patternRows";
import { useRowQuery } from "./useRowQuery";

interface Props {
  readonly patterns: AttentionPatterns;
  readonly model: string; // its id
}

/** Show map and table of the heads' attention by kind of token. */
export function HeadPatterns({ patterns, model }: Props) {
  const { session, state, update } = usePage();
  const [{ place }, ask] = useRowQuery();
  const kinds = Object.keys(patterns.kinds);
  const kind = place !== null && kinds.includes(place) ? place : (kinds[0] ?? "special");
  // Default head: the one with the largest share of this kind.
  const [layer, head] = state.head ?? findTopHead(patterns, kind) ?? [null, null];
  const chosen = patterns.heads.find((each) => each.layer === layer && each.head === head) ?? null;
  const setting = `${shortenModelName(model, session)}, ${patterns.data}, n = ${patterns.used}`;
  const title = `Attention to ${kind}`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      drawHeadGrid(
        { title, values: buildShareGrid(patterns, kind), low: 0, high: 1, signed: false },
        { width, theme, ...(state.head ? { selected: state.head } : {}) },
      ),
    [patterns, kind, title, state.head],
  );
  return (
    <section className="heads-part" aria-label="What heads attend to">
      <p className="controls">
        <label>
          Kind of place{" "}
          <select value={kind} onChange={(event) => ask({ place: event.target.value })}>
            {kinds.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <span className="dim">
          {kind}: {patterns.kinds[kind]}. Means over {formatCount(patterns.used, "example")}.
        </span>
      </p>
      {patterns.left_out.map((sentence) => (
        <p key={sentence} className="note">
          {sentence}
        </p>
      ))}
      <div className="map-and-one">
        <article className="panel">
          <h3>{title}, share by layer and head</h3>
          <ResponsivePicture
            name={`heads-${kind}`}
            caption={`${title}, mean share; ${setting}`}
            draw={draw}
            most={560}
            onHit={(hit) => hit.kind === "head" && update({ head: [hit.layer, hit.head] }, "replace")}
          />
        </article>
        <article className="panel">
          {chosen ? (
            <HeadPatternDetails pattern={chosen} setting={setting} />
          ) : (
            <p className="empty">Choose a head in the map or in the table to see all it attends to.</p>
          )}
        </article>
      </div>
      <div className="panel">
        <Table
          key={kind}
          caption={`${formatCount(patterns.heads.length, "head")} by ${kind}, the most first, with 95% intervals`}
          columns={listPatternColumns(kind)}
          rows={buildPatternRows(patterns, kind)}
          formats={PATTERN_FORMATS}
          first={BY_SHARE}
          most={12}
          file={{ name: "habits", caption: `Attention of heads to ${kind}; ${setting}` }}
          onRow={(index) => {
            const row = patterns.heads[index];
            if (row) update({ head: [row.layer, row.head] }, "replace");
          }}
          selected={chosen ? patterns.heads.indexOf(chosen) : null}
        />
      </div>
    </section>
  );
}

interface HeadPatternDetailsProps {
  readonly pattern: AttentionPatterns["heads"][number];
  readonly setting: string;
}

function HeadPatternDetails({ pattern, setting }: HeadPatternDetailsProps) {
  const title = `Layer ${pattern.layer}, head ${pattern.head}: where its attention goes`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      drawBars(
        Object.entries(pattern.shares).map(([kind, share]) => ({
          label: kind,
          value: share.mean ?? 0,
          low: share.low,
          high: share.high,
          title: `${kind}: ${formatEstimate(share, formatPercent)}`,
        })),
        { width, theme, title, least: 0, most: 1, format: formatPercent },
      ),
    [pattern, title],
  );
  return (
    <>
      <h3>
        Layer {pattern.layer}, head {pattern.head}
      </h3>
      <p>It {pattern.words}.</p>
      <ResponsivePicture
        name={`head-${pattern.layer}-${pattern.head}`}
        caption={`${title}; ${setting}`}
        draw={draw}
        most={560}
      />
      <p className="dim">
        Entropy {formatEstimate(pattern.entropy, formatPercent)} of the largest possible.
        {pattern.tokens.length > 0 && " It prefers "}
        {pattern.tokens.map(([token, share], at) => (
          <span key={token}>
            {at > 0 && ", "}
            <code>{token}</code> {formatPercent(share)}
          </span>
        ))}
        {pattern.tokens.length > 0 && "."}
      </p>
    </>
  );
}
