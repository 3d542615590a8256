/** The picture that an answer carries, as pixels that can be drawn on. */

import { useEffect, useState } from "react";

import type { ShownPicture } from "../api/types";
import { blank } from "../render/canvas";
import type { Pixels } from "../render/overlay";

export function usePixels(picture: ShownPicture | null): Pixels | null {
  const [found, setFound] = useState<{ readonly png: string; readonly pixels: Pixels } | null>(null);
  const png = picture?.png ?? null;
  useEffect(() => {
    if (png === null) return;
    let isWanted = true;
    void decoded(png).then((pixels) => {
      if (isWanted && pixels) setFound({ png, pixels });
    });
    return () => {
      isWanted = false;
    };
  }, [png]);
  return found !== null && found.png === png ? found.pixels : null;
}

/** Reads a PNG by the browser's own reader. */
async function decoded(png: string): Promise<Pixels | null> {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const context = blank(width, height).getContext("2d", { willReadFrequently: true });
  if (!context) return null;
  context.drawImage(image, 0, 0);
  return { width, height, data: context.getImageData(0, 0, width, height).data };
}
