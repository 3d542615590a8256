/** Data embedded in an offline file: its types, as the Python package writes them, and its readers. */

import type { InputComparisonData, Explanations, Flow, Heads } from "../api/types";

/** Array in base64; attention maps are square roots in 16 bits, thumbnails in 8. */
export interface PackedArray {
  readonly shape: readonly number[];
  readonly dtype: "uint8" | "uint16";
  readonly data: string;
}

/** Flow without its tokens, which the explanations have; `specials`: with edges to special tokens. */
export type FileFlow = Omit<Flow, "tokens"> & { readonly specials: boolean };

/** One input of a file with its answers. */
export interface FileInput {
  readonly explanations: Explanations;
  readonly flows: readonly FileFlow[]; // back from the decision, for each weight
  readonly words: readonly FileFlow[]; // from the decision to each word
  readonly heads: readonly Heads[];
  readonly thumbnails: PackedArray | null;
  readonly maps: PackedArray | null;
  readonly refused: Readonly<Record<string, string>>; // weights and statistics that the model lacks, with reasons
  readonly without: string | null; // reason why there are no flows
}

/** Data of an offline file. */
export interface FileData {
  readonly version: number;
  readonly kind: "page";
  readonly inputs: readonly FileInput[];
  readonly compared?: readonly InputComparisonData[];
  readonly left_out: readonly ("maps" | "thumbnails" | "words")[]; // tiers left out to limit the file's size
}

/** Read the data from the document; null where it has none. */
export function readFileData(page: Document): FileData | null {
  const element = page.getElementById("whence-payload");
  if (element === null || element.getAttribute("type") !== "application/json") return null;
  return JSON.parse(element.textContent) as FileData;
}

/** Decode a packed array. */
export function unpackArray({ dtype, data }: PackedArray): Uint8Array | Uint16Array {
  const text = atob(data);
  const bytes = Uint8Array.from(text, (sign) => sign.charCodeAt(0));
  if (dtype === "uint8") return bytes;
  const view = new DataView(bytes.buffer);
  return Uint16Array.from({ length: bytes.length / 2 }, (_, place) => view.getUint16(2 * place, true));
}
