/** What an offline file carries: the shapes that `whence.explainer.kept.page.picture` writes. */

import type { Compared, Explanations, Flow, Heads } from "../api/types";

/** An array in base64; maps of attention are the root of the weight in 16 bits, thumbnails in 8. */
export interface Packed {
  readonly shape: readonly number[];
  readonly dtype: "uint8" | "uint16";
  readonly data: string;
}

/** A flow without its tokens, which the explanations have; `specials`: with edges that end on special tokens. */
export type CarriedFlow = Omit<Flow, "tokens"> & { readonly specials: boolean };

export interface CarriedInput {
  readonly explanations: Explanations;
  readonly flows: readonly CarriedFlow[]; // back from the decision, for each weight
  readonly words: readonly CarriedFlow[]; // from the decision to each word
  readonly heads: readonly Heads[];
  readonly thumbnails: Packed | null;
  readonly maps: Packed | null;
  readonly refused: Readonly<Record<string, string>>; // weights and statistics the model does not have, and why
  readonly without: string | null; // why there are no flows at all
}

export interface Payload {
  readonly version: number;
  readonly kind: "page";
  readonly inputs: readonly CarriedInput[];
  readonly compared?: readonly Compared[];
  readonly left_out: readonly ("maps" | "thumbnails" | "words")[]; // for the file's size
}

/** Reads what stands in the document, or says that nothing does. */
export function payloadOf(page: Document): Payload | null {
  const element = page.getElementById("whence-payload");
  if (element === null || element.getAttribute("type") !== "application/json") return null;
  return JSON.parse(element.textContent) as Payload;
}

export function unpacked({ dtype, data }: Packed): Uint8Array | Uint16Array {
  const text = atob(data);
  const bytes = Uint8Array.from(text, (sign) => sign.charCodeAt(0));
  if (dtype === "uint8") return bytes;
  const view = new DataView(bytes.buffer);
  return Uint16Array.from({ length: bytes.length / 2 }, (_, place) => view.getUint16(2 * place, true));
}
