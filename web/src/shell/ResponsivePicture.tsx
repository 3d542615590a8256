/** Picture as wide as its container. */

import { useMemo } from "react";

import type { Hit, Scene, Theme } from "../render/scene";
import { usePage } from "./pageContext";
import { Picture } from "./Picture";
import { useWidth } from "./useWidth";

interface Props {
  readonly name: string;
  readonly caption: string;
  readonly draw: (theme: Theme, width: number) => Scene; // wrap in useCallback: a new function redraws the picture
  readonly onHit?: (hit: Hit, how: { readonly add: boolean }) => void;
  readonly selected?: Hit | null;
  readonly most?: number; // maximum width
}

/** Draw a scene at the width of its container. */
export function ResponsivePicture({ name, caption, draw, onHit, selected, most = Infinity }: Props) {
  const { theme } = usePage();
  const [place, measured] = useWidth();
  const width = Math.min(measured, most);
  const scene = useMemo(() => draw(theme, width), [draw, theme, width]);
  return (
    <div ref={place} className="drawn">
      <Picture
        scene={scene}
        name={name}
        caption={caption}
        theme={theme}
        draw={(other) => draw(other, width)}
        {...(onHit ? { onHit } : {})}
        {...(selected === undefined ? {} : { selected })}
      />
    </div>
  );
}
