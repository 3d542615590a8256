/** Which rows are wanted and in which order, as a word in the link, and back. What cannot be read is left out. */

import { ALL, BY_SURPRISE, COLUMNS, type Order, type Wanted } from "./rows";

export interface Asked {
  readonly wanted: Wanted;
  readonly order: Order;
}

export function writeRows({ wanted, order }: Asked): string {
  const parts = new URLSearchParams();
  if (wanted.search !== "") parts.set("search", wanted.search);
  if (wanted.label !== null) parts.set("label", wanted.label);
  if (wanted.predicted !== null) parts.set("predicted", wanted.predicted);
  if (wanted.right !== null) parts.set("right", wanted.right ? "yes" : "no");
  if (wanted.numbers !== null) parts.set("numbers", wanted.numbers.join("."));
  if (order.column !== BY_SURPRISE.column || order.descending !== BY_SURPRISE.descending) {
    parts.set("by", `${order.descending ? "-" : ""}${order.column}`);
  }
  return parts.toString();
}

export function readRows(written: string): Asked {
  const parts = new URLSearchParams(written);
  const right = parts.get("right");
  const numbers = parts.get("numbers");
  return {
    wanted: {
      search: parts.get("search") ?? ALL.search,
      label: parts.get("label"),
      predicted: parts.get("predicted"),
      right: right === "yes" ? true : right === "no" ? false : null,
      numbers: numbers !== null && /^\d+(\.\d+)*$/.test(numbers) ? numbers.split(".").map(Number) : null,
    },
    order: readOrder(parts.get("by")),
  };
}

function readOrder(written: string | null): Order {
  const descending = written?.startsWith("-") ?? false;
  const column = COLUMNS.find((name) => name === written?.replace(/^-/, ""));
  return column === undefined ? BY_SURPRISE : { column, descending };
}
