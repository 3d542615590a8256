/** PNG encoder without a canvas, for images in SVG, and palettes of 256 colours for head grid and matrix. */

import { parseHex } from "./theme";

/** Sample 256 colours of a scale as RGBA, so that an image fits a PNG palette. */
export function buildPalette(scale: (share: number) => string): Uint8ClampedArray {
  const table = new Uint8ClampedArray(256 * 4);
  for (let i = 0; i < 256; i++) table.set([...parseHex(scale(i / 255)), 255], i * 4);
  return table;
}

/** Colour shares 0..255 by a palette. */
export function colourValues(values: ArrayLike<number>, table: Uint8ClampedArray): Uint8ClampedArray {
  const pixels = new Uint8ClampedArray(values.length * 4);
  for (let i = 0; i < values.length; i++) {
    const from = (values[i] ?? 0) * 4;
    for (let part = 0; part < 4; part++) pixels[i * 4 + part] = table[from + part] ?? 0;
  }
  return pixels;
}

/** Encode a PNG as a data URI. Uncompressed deflate blocks: larger, but the same bytes everywhere. */
export function encodePng(pixels: Uint8ClampedArray, columns: number, rows: number): string {
  const { colours, indices } = indexColours(pixels);
  const isIndexed = colours.length <= 256;
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, columns);
  view.setUint32(4, rows);
  header.set([8, isIndexed ? 3 : 6, 0, 0, 0], 8);

  const chunks = [buildChunk("IHDR", header)];
  if (isIndexed)
    chunks.push(
      buildChunk(
        "PLTE",
        Uint8Array.from(colours.flatMap((c) => [c >>> 24, (c >> 16) & 255, (c >> 8) & 255])),
      ),
    );
  const raw = isIndexed
    ? buildScanlines(indices, columns, rows, 1)
    : buildScanlines(pixels, columns, rows, 4);
  chunks.push(buildChunk("IDAT", deflateStored(raw)), buildChunk("IEND", new Uint8Array(0)));
  return `data:image/png;base64,${encodeBase64([Uint8Array.of(137, 80, 78, 71, 13, 10, 26, 10), ...chunks])}`;
}

function indexColours(pixels: Uint8ClampedArray): { colours: number[]; indices: Uint8Array } {
  const places = new Map<number, number>();
  const indices = new Uint8Array(pixels.length / 4);
  for (let i = 0; i < indices.length; i++) {
    const at = i * 4;
    const colour = (((pixels[at] ?? 0) << 24) | ((pixels[at + 1] ?? 0) << 16) | ((pixels[at + 2] ?? 0) << 8) | (pixels[at + 3] ?? 0)) >>> 0; // prettier-ignore
    let place = places.get(colour);
    if (place === undefined) places.set(colour, (place = places.size));
    indices[i] = place;
    // The palette has no transparency: images with it are written as RGBA.
    if (places.size > 256 || (pixels[at + 3] ?? 0) < 255)
      return { colours: new Array<number>(257).fill(0), indices };
  }
  return { colours: [...places.keys()], indices };
}

/** Build the scanlines; each begins with filter type 0, none. */
function buildScanlines(bytes: ArrayLike<number>, columns: number, rows: number, depth: number): Uint8Array {
  const stride = columns * depth;
  const out = new Uint8Array(rows * (stride + 1));
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < stride; i++) out[row * (stride + 1) + 1 + i] = bytes[row * stride + i] ?? 0;
  }
  return out;
}

function deflateStored(raw: Uint8Array): Uint8Array {
  const blocks = Math.max(1, Math.ceil(raw.length / 65535));
  const out = new Uint8Array(2 + raw.length + blocks * 5 + 4);
  const view = new DataView(out.buffer);
  out.set([0x78, 0x01]);
  let at = 2;
  for (let block = 0; block < blocks; block++) {
    const part = raw.subarray(block * 65535, (block + 1) * 65535);
    out[at] = block === blocks - 1 ? 1 : 0;
    view.setUint16(at + 1, part.length, true);
    view.setUint16(at + 3, ~part.length & 0xffff, true);
    out.set(part, at + 5);
    at += 5 + part.length;
  }
  let [a, b] = [1, 0];
  for (const byte of raw) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  view.setUint32(at, b * 65536 + a);
  return out;
}

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

function buildChunk(name: string, data: Uint8Array): Uint8Array {
  const out = new Uint8Array(12 + data.length);
  const view = new DataView(out.buffer);
  view.setUint32(0, data.length);
  out.set(
    [...name].map((letter) => letter.charCodeAt(0)),
    4,
  );
  out.set(data, 8);
  let crc = 0xffffffff;
  for (const byte of out.subarray(4, 8 + data.length)) crc = (CRC[(crc ^ byte) & 255] ?? 0) ^ (crc >>> 8);
  view.setUint32(8 + data.length, ~crc >>> 0);
  return out;
}

function encodeBase64(parts: readonly Uint8Array[]): string {
  const pieces: string[] = [];
  for (const part of parts) {
    for (let at = 0; at < part.length; at += 8192)
      pieces.push(String.fromCharCode(...part.subarray(at, at + 8192)));
  }
  return btoa(pieces.join(""));
}
