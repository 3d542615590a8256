/** Preview of a file whose columns could not be guessed, with a choice of role for each column. */

import { useState } from "react";

import type { DataSet, Fault } from "../api/types";
import { FaultNote } from "../shell/FaultNote";
import { useServer } from "../shell/pageContext";
import { formatCount } from "../shell/numberFormat";
import { useJob } from "../shell/useRequest";
import type { RequestOptions } from "../source/source";
import { type ColumnsRequest, type Role, ROLES, type UnreadFile, buildColumnsRequest } from "./columnRoles";

interface Props {
  readonly unread: UnreadFile;
  readonly read: (columns: ColumnsRequest, options: RequestOptions) => Promise<DataSet>;
  readonly onRead: (set: DataSet) => void;
}

const NAMES: Readonly<Record<Role, string>> = { text: "Text", pair: "Second text", label: "Label" };

/** Show the first rows of a file, and let each column be chosen as text, second text or label. */
export function ColumnChooser({ unread: { name, message, table }, read, onRead }: Props) {
  const { announce } = useServer();
  const [chosen, setChosen] = useState<Readonly<Partial<Record<Role, number>>>>({});
  const { run, running, fault } = useJob<DataSet>(`choose ${name}`);
  const choose = (role: Role, column: number): void =>
    setChosen((old) => {
      // Each column has at most one role, and each role one column.
      const rest = Object.fromEntries(
        ROLES.flatMap((each) => (old[each] === column ? [] : [[each, old[each]]])),
      );
      return old[role] === column ? rest : { ...rest, [role]: column };
    });
  const begin = (): void =>
    run(async (options) => {
      const set = await read(buildColumnsRequest(chosen, table.columns), options);
      announce(`${set.name} was read, with ${formatCount(set.rows, "row")}.`);
      onRead(set);
      return set;
    });
  return (
    <section className="chooser" aria-labelledby="chooser">
      <h1 id="chooser">Which column of {name} is the text?</h1>
      <p className="dim">{shortenMessage(message)}</p>
      {/* Scrollable areas must be reachable by keyboard. */}
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
            : describeChoice(chosen, table.columns)}
        </span>
      </p>
      {fault && <FaultNote fault={removeHint(fault)} />}
    </section>
  );
}

/** Drop the command-line options from the message: here they are buttons. */
function shortenMessage(message: string): string {
  return message.replace(/ Allowed: .*$/su, "");
}

function isChosen(chosen: Readonly<Partial<Record<Role, number>>>, column: number): boolean {
  return ROLES.some((role) => chosen[role] === column);
}

function describeChoice(chosen: Readonly<Partial<Record<Role, number>>>, columns: readonly string[]): string {
  const nameColumn = (role: Role, none: string): string => {
    const column = chosen[role];
    return column === undefined ? none : `“${columns[column] ?? ""}”`;
  };
  return `Text from ${nameColumn("text", "")}, second text: ${nameColumn("pair", "none")}, labels: ${nameColumn("label", "guessed, where a column looks like them")}.`;
}

/** Remove the hint of a fault: this form is its remedy. */
function removeHint(fault: Fault): Fault {
  return { ...fault, hint: "" };
}
