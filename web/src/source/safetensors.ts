/** Reader of tensors in the safetensors format, in which the server sends attention maps. */

import type { Tensor } from "./source";

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** Read all tensors of a file. */
export function readTensors(bytes: ArrayBuffer): Map<string, Tensor> {
  if (bytes.byteLength < 8) throw new Error("these bytes are too few for safetensors");
  const length = Number(new DataView(bytes).getBigUint64(0, true));
  if (length > bytes.byteLength - 8)
    throw new Error("the header of these safetensors is longer than they are");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length))) as Record<
    string,
    Entry
  >;
  const tensors = new Map<string, Tensor>();
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [from, to],
    },
  ] of Object.entries(header).filter(isTensor)) {
    // A copy: a Float32Array needs an offset that is a multiple of four.
    const data = bytes.slice(8 + length + from, 8 + length + to);
    if (dtype === "F32") tensors.set(name, { shape, data: new Float32Array(data) });
    else if (dtype === "U8") tensors.set(name, { shape, data: new Uint8Array(data) });
    else throw new Error(`${name} is of ${dtype}; F32 and U8 can be read`);
  }
  return tensors;
}

function isTensor([name]: [string, Entry]): boolean {
  return name !== "__metadata__";
}
