/** Columns that a data set is read from, guessed or chosen, each with a menu of the others. */

import type { DataSet } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/pageContext";
import { formatCount } from "../shell/numberFormat";
import { useJob } from "../shell/useRequest";
import { changeColumn, type Role, ROLES } from "./columnRoles";

interface Props {
  readonly set: DataSet;
  readonly onRead: (set: DataSet) => void;
}

const NAMES: Readonly<Record<Role, string>> = {
  text: "Text in column",
  pair: "Second text",
  label: "Labels",
};

/** Show text, second text and label column, each changeable. */
export function ColumnList({ set, onRead }: Props) {
  const { source, announce } = useServer();
  const { run, running, fault } = useJob<DataSet>(`columns ${set.id}`);
  const choose = (role: Role, column: string | null): void =>
    run(async (options) => {
      const read = await source.readColumns(set.id, changeColumn(set, role, column), options);
      onRead(read);
      announce(`${read.name} was read anew, with ${formatCount(read.rows, "row")}.`);
      return read;
    });
  if (set.columns.length === 0) {
    return <p className="dim">{formatCount(set.rows, "row")} · one text a line, no labels</p>;
  }
  return (
    <>
      <div className="controls" aria-busy={running}>
        <span className="dim">{formatCount(set.rows, "row")}</span>
        {ROLES.map((role) => (
          <label key={role}>
            {NAMES[role]}{" "}
            <select
              value={set[role] ?? ""}
              disabled={running}
              onChange={({ target }) => choose(role, target.value === "" ? null : target.value)}
            >
              {role !== "text" && <option value="">none</option>}
              {listOptions(set, role).map((column) => (
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

/** List the columns of a menu, with a label name that is no column of the file, such as a default. */
function listOptions({ columns, ...set }: DataSet, role: Role): readonly string[] {
  const now = set[role];
  return now === null || columns.includes(now) ? columns : [now, ...columns];
}
