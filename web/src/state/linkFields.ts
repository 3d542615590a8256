/** Field codecs of the link: each writes and reads one kind of value. Reading returns undefined, never throws. */

import { listNames } from "./choices";
import type { HeadId } from "./state";

/** Codec of one value. */
export interface Field<T> {
  readonly write: (value: T) => string;
  readonly read: (encoded: string) => T | undefined;
}

export const text: Field<string> = { write: (value) => value, read: (encoded) => encoded };

export const flag: Field<boolean> = {
  write: (value) => (value ? "1" : "0"),
  read: (encoded) => (encoded === "1" ? true : encoded === "0" ? false : undefined),
};

export const integer: Field<number> = {
  write: String,
  read: (encoded) => (/^\d{1,9}$/.test(encoded) ? Number(encoded) : undefined),
};

/** Number from 0 to 1, exact. */
export const share: Field<number> = {
  write: String,
  read: (encoded) => {
    const value = Number(encoded);
    return encoded !== "" && value >= 0 && value <= 1 ? value : undefined;
  },
};

/** Share as a percentage, to a tenth. */
export const percent: Field<number> = {
  write: (value) => String(Math.round(value * 1000) / 10),
  read: (encoded) => {
    const value = Math.round(Number(encoded) * 10) / 1000;
    return encoded !== "" && value > 0 && value <= 1 ? value : undefined;
  },
};

/** Range of layers, such as `3-11`. */
export const range: Field<readonly [number, number]> = {
  write: ([first, last]) => `${first}-${last}`,
  read: (encoded) => {
    const match = /^(\d{1,6})-(\d{1,6})$/.exec(encoded);
    if (!match) return undefined;
    const [first, last] = [Number(match[1]), Number(match[2])];
    return first <= last ? [first, last] : undefined;
  },
};

/** Head of a layer, such as `9.4`. */
export const head: Field<HeadId> = {
  write: ([layer, number]) => `${layer}.${number}`,
  read: (encoded) => {
    const match = /^(\d{1,6})\.(\d{1,6})$/.exec(encoded);
    return match ? [Number(match[1]), Number(match[2])] : undefined;
  },
};

/** Name of a method: any text without a comma. */
export const name: Field<string> = {
  write: (value) => value,
  read: (encoded) => (encoded !== "" && !encoded.includes(",") ? encoded : undefined),
};

/** Codec of one of several names. */
export function choice<K extends string>(names: Readonly<Record<K, string>>): Field<K> {
  const known = listNames(names);
  return { write: (value) => value, read: (encoded) => known.find((each) => each === encoded) };
}

/** Codec of a list separated by commas; one unreadable item rejects all. */
export function list<T>(field: Field<T>, most = Infinity): Field<readonly T[]> {
  return {
    write: (values) => values.map(field.write).join(","),
    read: (encoded) => {
      const values: T[] = [];
      for (const part of encoded === "" ? [] : encoded.split(",")) {
        const value = field.read(part);
        if (value === undefined || values.length === most) return undefined;
        values.push(value);
      }
      return values;
    },
  };
}

/** Texts separated by line ends; they may contain commas. */
export const lines: Field<readonly string[]> = {
  write: (values) => values.join("\n"),
  read: (encoded) => encoded.split("\n").filter((each) => each !== ""),
};

/** Codec of a value that may be null; null is not written. */
export function optional<T>(field: Field<T>): Field<T | null> {
  return { write: (value) => (value === null ? "" : field.write(value)), read: field.read };
}
