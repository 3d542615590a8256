/** A file whose columns nobody can tell: its first rows, and under each column what it may be read as. */

import { useState } from "react";

import type { DataSet, Fault } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/context";
import { count } from "../shell/figures";
import { useJob } from "../shell/useAsked";
import type { Asking } from "../source/source";
import { type ColumnsAsked, type Role, ROLES, type Unread, asColumns } from "./columns";

interface Props {
  readonly unread: Unread;
  readonly read: (columns: ColumnsAsked, asking: Asking) => Promise<DataSet>;
  readonly onRead: (set: DataSet) => void;
}

const NAMES: Readonly<Record<Role, string>> = { text: "Text", pair: "Second text", label: "Label" };

export function ColumnChooser({ unread: { name, message, table }, read, onRead }: Props) {
  const { announce } = useServer();
  const [chosen, setChosen] = useState<Readonly<Partial<Record<Role, number>>>>({});
  const { run, running, fault } = useJob<DataSet>(`choose ${name}`);
  const choose = (role: Role, column: number): void =>
    setChosen((old) => {
      // A column is read as one thing, and one column as each.
      const rest = Object.fromEntries(
        ROLES.flatMap((each) => (old[each] === column ? [] : [[each, old[each]]])),
      );
      return old[role] === column ? rest : { ...rest, [role]: column };
    });
  const begin = (): void =>
    run(async (asking) => {
      const set = await read(asColumns(chosen, table.columns), asking);
      announce(`${set.name} was read, with ${count(set.rows, "row")}.`);
      onRead(set);
      return set;
    });
  return (
    <section className="chooser" aria-labelledby="chooser">
      <h1 id="chooser">Which column of {name} is the text?</h1>
      <p className="dim">{shortened(message)}</p>
      {/* It scrolls, and keys must reach what scrolls. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className="wide" role="region" aria-label={`First rows of ${name}`} tabIndex={0}>
        <table>
          <thead>
            <tr>
              {table.columns.map((column, index) => (
                <th key={index} scope="col">
                  <span className="name">{column}</span>
                  <span className="switch" role="group" aria-label={`${column} is`}>
                    {ROLES.map((role) => (
                      <button
                        key={role}
                        type="button"
                        className="small"
                        aria-pressed={chosen[role] === index}
                        onClick={() => choose(role, index)}
                      >
                        {NAMES[role]}
                      </button>
                    ))}
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, column) => (
                  <td key={column} className={isChosen(chosen, column) ? "chosen" : undefined} dir="auto">
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="controls">
        <button
          type="button"
          className="primary"
          disabled={chosen.text === undefined || running}
          aria-busy={running}
          onClick={begin}
        >
          Read the file
        </button>
        <span className="dim">
          {chosen.text === undefined
            ? "Choose the column of the texts; the second text and the labels only if there are any."
            : toldOf(chosen, table.columns)}
        </span>
      </p>
      {fault && <FaultNote fault={without(fault)} />}
    </section>
  );
}

/** Which names are guessed and which options there are elsewhere is of no use where one can click. */
function shortened(message: string): string {
  return message.replace(/ Allowed: .*$/su, "");
}

function isChosen(chosen: Readonly<Partial<Record<Role, number>>>, column: number): boolean {
  return ROLES.some((role) => chosen[role] === column);
}

function toldOf(chosen: Readonly<Partial<Record<Role, number>>>, columns: readonly string[]): string {
  const named = (role: Role, none: string): string => {
    const column = chosen[role];
    return column === undefined ? none : `“${columns[column] ?? ""}”`;
  };
  return `Text from ${named("text", "")}, second text: ${named("pair", "none")}, labels: ${named("label", "guessed, where a column looks like them")}.`;
}

/** The hint of the fault is what this page does. */
function without(fault: Fault): Fault {
  return { ...fault, hint: "" };
}
