/** How single values of the state are written in a link, and read again. Reading refuses with undefined, never throws. */

import { namesOf } from "./choices";
import type { HeadId } from "./state";

export interface Field<T> {
  readonly write: (value: T) => string;
  readonly read: (written: string) => T | undefined;
}

export const text: Field<string> = { write: (value) => value, read: (written) => written };

export const flag: Field<boolean> = {
  write: (value) => (value ? "1" : "0"),
  read: (written) => (written === "1" ? true : written === "0" ? false : undefined),
};

export const integer: Field<number> = {
  write: String,
  read: (written) => (/^\d{1,9}$/.test(written) ? Number(written) : undefined),
};

/** A number from 0 to 1, exactly. */
export const share: Field<number> = {
  write: String,
  read: (written) => {
    const value = Number(written);
    return written !== "" && value >= 0 && value <= 1 ? value : undefined;
  },
};

/** A share as a percentage, to a tenth of one. */
export const percent: Field<number> = {
  write: (value) => String(Math.round(value * 1000) / 10),
  read: (written) => {
    const value = Math.round(Number(written) * 10) / 1000;
    return written !== "" && value > 0 && value <= 1 ? value : undefined;
  },
};

/** Layers 3 to 11: `3-11`. */
export const range: Field<readonly [number, number]> = {
  write: ([first, last]) => `${first}-${last}`,
  read: (written) => {
    const found = /^(\d{1,6})-(\d{1,6})$/.exec(written);
    if (!found) return undefined;
    const [first, last] = [Number(found[1]), Number(found[2])];
    return first <= last ? [first, last] : undefined;
  },
};

/** Head 4 of layer 9: `9.4`. */
export const head: Field<HeadId> = {
  write: ([layer, number]) => `${layer}.${number}`,
  read: (written) => {
    const found = /^(\d{1,6})\.(\d{1,6})$/.exec(written);
    return found ? [Number(found[1]), Number(found[2])] : undefined;
  },
};

/** A name of a method: anything without a comma. */
export const name: Field<string> = {
  write: (value) => value,
  read: (written) => (written !== "" && !written.includes(",") ? written : undefined),
};

export function choice<K extends string>(names: Readonly<Record<K, string>>): Field<K> {
  const known = namesOf(names);
  return { write: (value) => value, read: (written) => known.find((each) => each === written) };
}

/** Several, with commas between; one that cannot be read spoils all. */
export function list<T>(field: Field<T>, most = Infinity): Field<readonly T[]> {
  return {
    write: (values) => values.map(field.write).join(","),
    read: (written) => {
      const values: T[] = [];
      for (const part of written === "" ? [] : written.split(",")) {
        const value = field.read(part);
        if (value === undefined || values.length === most) return undefined;
        values.push(value);
      }
      return values;
    },
  };
}

/** Several texts, with line ends between; there may be commas in them. */
export const lines: Field<readonly string[]> = {
  write: (values) => values.join("\n"),
  read: (written) => written.split("\n").filter((each) => each !== ""),
};

/** What is null by default stands in no link while it is null. */
export function optional<T>(field: Field<T>): Field<T | null> {
  return { write: (value) => (value === null ? "" : field.write(value)), read: field.read };
}
