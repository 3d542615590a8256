/** Export menu of the text strips: builds one picture of all methods' strips, to download as SVG, PNG or CSV. */

import { useCallback, useMemo } from "react";

import type { Flow, MethodExplanation } from "../api/types";
import type { Theme } from "../render/scene";
import { drawStrips } from "../render/wordStrips";
import { buildScale } from "../render/tint";
import { ExportMenu } from "../shell/ExportMenu";
import { usePage } from "../shell/pageContext";
import { type TokenizedText, selectScores, sumShares, listFeatures } from "./textFeatures";

/** One strip of the export: a method's scores, and the flow that underlines it. */
export interface ExportedStrip {
  readonly name: string; // method, or model and method
  readonly one: MethodExplanation;
  readonly flow: Flow | null;
  readonly target: string; // as the legend names it
}

interface Props {
  readonly explanations: TokenizedText;
  readonly strips: readonly ExportedStrip[];
  readonly asWords: boolean;
  readonly caption: string;
  readonly name?: string;
}

const WIDTH = 860;

/** Show the export menu of the text strips. */
export function StripExport({ explanations, strips: all, asWords, caption, name = "text" }: Props) {
  const { theme } = usePage();
  const features = useMemo(() => listFeatures(explanations, asWords), [explanations, asWords]);
  const strips = useMemo(() => {
    const shares = new Map<Flow, readonly number[]>();
    return all.map((each) => {
      const { flow, one } = each;
      if (flow && !shares.has(flow)) shares.set(flow, sumShares(flow, features));
      return {
        name: each.name,
        target: each.target,
        scores: selectScores(one, asWords),
        shares: flow ? (shares.get(flow) ?? null) : null,
        scale: buildScale(one),
      };
    });
  }, [all, features, asWords]);
  const draw = useCallback(
    (chosen: Theme) => drawStrips(features, strips, { width: WIDTH, theme: chosen }),
    [features, strips],
  );
  const scene = useMemo(() => draw(theme), [draw, theme]);
  return <ExportMenu name={name} caption={caption} scene={scene} theme={theme} draw={draw} />;
}
