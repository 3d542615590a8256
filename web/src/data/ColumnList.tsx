/** What a data set is read from: its columns, as guessed or as chosen, each with a way to choose another. */

import type { DataSet } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/context";
import { count } from "../shell/figures";
import { useJob } from "../shell/useAsked";
import { columnsAsked, type Role, ROLES } from "./columns";

interface Props {
  readonly set: DataSet;
  readonly onRead: (set: DataSet) => void;
}

const NAMES: Readonly<Record<Role, string>> = {
  text: "Text in column",
  pair: "Second text",
  label: "Labels",
};

export function Columns({ set, onRead }: Props) {
  const { source, announce } = useServer();
  const { run, running, fault } = useJob<DataSet>(`columns ${set.id}`);
  const choose = (role: Role, column: string | null): void =>
    run(async (asking) => {
      const read = await source.columns(set.id, columnsAsked(set, role, column), asking);
      onRead(read);
      announce(`${read.name} was read anew, with ${count(read.rows, "row")}.`);
      return read;
    });
  if (set.columns.length === 0) {
    return <p className="dim">{count(set.rows, "row")} · one text a line, no labels</p>;
  }
  return (
    <>
      <div className="controls" aria-busy={running}>
        <span className="dim">{count(set.rows, "row")}</span>
        {ROLES.map((role) => (
          <label key={role}>
            {NAMES[role]}{" "}
            <select
              value={set[role] ?? ""}
              disabled={running}
              onChange={({ target }) => choose(role, target.value === "" ? null : target.value)}
            >
              {role !== "text" && <option value="">none</option>}
              {optionsFor(set, role).map((column) => (
                <option key={column}>{column}</option>
              ))}
            </select>
            {set.guessed.includes(role) && <span className="dim"> guessed</span>}
          </label>
        ))}
      </div>
      {fault && <FaultNote fault={fault} />}
    </>
  );
}

/** A label column may have a name that is not the file's, such as a default; it is then shown, too. */
function optionsFor({ columns, ...set }: DataSet, role: Role): readonly string[] {
  const now = set[role];
  return now === null || columns.includes(now) ? columns : [now, ...columns];
}
