/** Hook that decodes the explained picture of an answer from PNG to RGBA pixels. */

import { useEffect, useState } from "react";

import type { ExplainedImage } from "../api/types";
import { createCanvas } from "../render/canvas";
import type { Pixels } from "../render/overlay";

/** Decode the picture of an answer; null while it is pending. */
export function usePixels(picture: ExplainedImage | null): Pixels | null {
  const [decoded, setDecoded] = useState<{ readonly png: string; readonly pixels: Pixels } | null>(null);
  const png = picture?.png ?? null;
  useEffect(() => {
    if (png === null) return;
    let isWanted = true;
    void decodePng(png).then((pixels) => {
      if (isWanted && pixels) setDecoded({ png, pixels });
    });
    return () => {
      isWanted = false;
    };
  }, [png]);
  return decoded !== null && decoded.png === png ? decoded.pixels : null;
}

/** Decode a PNG with the browser's decoder. */
async function decodePng(png: string): Promise<Pixels | null> {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const context = createCanvas(width, height).getContext("2d", { willReadFrequently: true });
  if (!context) return null;
  context.drawImage(image, 0, 0);
  return { width, height, data: context.getImageData(0, 0, width, height).data };
}
