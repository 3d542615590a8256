/** Which heads attend to what: a map of all heads by a kind of place, a table, and one head in full. */

import { useCallback } from "react";

import type { Habits } from "../api/types";
import { bars } from "../render/bars";
import { headmap } from "../render/headmap";
import type { Theme } from "../render/scene";
import { count, figure, percent } from "../shell/figures";
import { usePage } from "../shell/context";
import { Drawn } from "../shell/Drawn";
import { Table } from "../shell/Table";
import { shortName } from "../shell/names";
import { BY_SHARE, habitGrid, habitRows, HABIT_COLUMNS, HABIT_UNITS, topHead } from "./habits";
import { useRows } from "./useRows";

interface Props {
  readonly habits: Habits;
  readonly model: string; // its id
}

export function HeadHabits({ habits, model }: Props) {
  const { session, state, update } = usePage();
  const [{ place }, ask] = useRows();
  const kinds = Object.keys(habits.kinds);
  const kind = place !== null && kinds.includes(place) ? place : (kinds[0] ?? "special");
  // Nobody has chosen a head yet: the one that attends to this kind the most.
  const [layer, head] = state.head ?? topHead(habits, kind) ?? [null, null];
  const chosen = habits.heads.find((each) => each.layer === layer && each.head === head) ?? null;
  const setting = `${shortName(model, session)}, ${habits.data}, n = ${habits.used}`;
  const title = `Attention to ${kind}`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      headmap(
        { title, values: habitGrid(habits, kind), low: 0, high: 1, signed: false },
        { width, theme, ...(state.head ? { selected: state.head } : {}) },
      ),
    [habits, kind, title, state.head],
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
          {kind}: {habits.kinds[kind]}. Means over {count(habits.used, "example")}.
        </span>
      </p>
      {habits.left_out.map((sentence) => (
        <p key={sentence} className="note">
          {sentence}
        </p>
      ))}
      <div className="map-and-one">
        <article className="panel">
          <h3>{title}, share by layer and head</h3>
          <Drawn
            name={`heads-${kind}`}
            caption={`${title}, mean share; ${setting}`}
            draw={draw}
            most={560}
            onHit={(hit) => hit.kind === "head" && update({ head: [hit.layer, hit.head] }, "replace")}
          />
        </article>
        <article className="panel">
          {chosen ? (
            <OneHead habit={chosen} setting={setting} />
          ) : (
            <p className="empty">Choose a head in the map or in the table to see all it attends to.</p>
          )}
        </article>
      </div>
      <div className="panel">
        <Table
          key={kind}
          caption={`${count(habits.heads.length, "head")} by ${kind}, the most first, with 95% intervals`}
          columns={HABIT_COLUMNS(kind)}
          rows={habitRows(habits, kind)}
          written={HABIT_UNITS}
          first={BY_SHARE}
          most={12}
          file={{ name: "habits", caption: `Attention of heads to ${kind}; ${setting}` }}
          onRow={(index) => {
            const row = habits.heads[index];
            if (row) update({ head: [row.layer, row.head] }, "replace");
          }}
          selected={chosen ? habits.heads.indexOf(chosen) : null}
        />
      </div>
    </section>
  );
}

interface OneProps {
  readonly habit: Habits["heads"][number];
  readonly setting: string;
}

function OneHead({ habit, setting }: OneProps) {
  const title = `Layer ${habit.layer}, head ${habit.head}: where its attention goes`;
  const draw = useCallback(
    (theme: Theme, width: number) =>
      bars(
        Object.entries(habit.shares).map(([kind, share]) => ({
          label: kind,
          value: share.mean ?? 0,
          low: share.low,
          high: share.high,
          title: `${kind}: ${figure(share, percent)}`,
        })),
        { width, theme, title, least: 0, most: 1, written: percent },
      ),
    [habit, title],
  );
  return (
    <>
      <h3>
        Layer {habit.layer}, head {habit.head}
      </h3>
      <p>It {habit.words}.</p>
      <Drawn
        name={`head-${habit.layer}-${habit.head}`}
        caption={`${title}; ${setting}`}
        draw={draw}
        most={560}
      />
      <p className="dim">
        Entropy {figure(habit.entropy, percent)} of the largest possible.
        {habit.tokens.length > 0 && " It prefers "}
        {habit.tokens.map(([token, share], at) => (
          <span key={token}>
            {at > 0 && ", "}
            <code>{token}</code> {percent(share)}
          </span>
        ))}
        {habit.tokens.length > 0 && "."}
      </p>
    </>
  );
}
