/** Tests of the safetensors reader: numbers and shapes at any byte offset, unreadable bytes refused. */

import { expect, test } from "vitest";

import { readTensors } from "./safetensors";

/** The format, written down once more: u64 length, JSON, bytes. */
function makeFile(header: object, data: Uint8Array): ArrayBuffer {
  const json = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + json.length + data.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
  bytes.set(json, 8);
  bytes.set(data, 8 + json.length);
  return bytes.buffer;
}

test("tensors at any byte offset: numbers and shapes are restored", () => {
  const floats = new Uint8Array(new Float32Array([0.25, -1, 3]).buffer);
  // One byte first, so that the floats begin at no multiple of four.
  const data = new Uint8Array([7, ...floats]);
  const header = {
    __metadata__: { version: "1" },
    small: { dtype: "U8", shape: [1, 1], data_offsets: [0, 1] },
    map: { dtype: "F32", shape: [3], data_offsets: [1, 13] },
  };
  const tensors = readTensors(makeFile(header, data));
  expect([...tensors.keys()]).toEqual(["small", "map"]);
  expect(tensors.get("small")).toEqual({ shape: [1, 1], data: new Uint8Array([7]) });
  expect(tensors.get("map")).toEqual({ shape: [3], data: new Float32Array([0.25, -1, 3]) });
});

test("unreadable bytes: throws", () => {
  expect(() => readTensors(new ArrayBuffer(4))).toThrow("too few");
  expect(() => readTensors(new Uint8Array([255, 0, 0, 0, 0, 0, 0, 0, 1]).buffer)).toThrow(
    "longer than they are",
  );
  const half = makeFile({ x: { dtype: "F16", shape: [1], data_offsets: [0, 2] } }, new Uint8Array(2));
  expect(() => readTensors(half)).toThrow("x is of F16");
});
