/** The tinted text as a file. */

import { useCallback, useMemo } from "react";

import type { Flow, OneExplanation } from "../api/types";
import type { Theme } from "../render/scene";
import { strips } from "../render/strip";
import { scaleOf } from "../render/tint";
import { ExportMenu } from "../shell/ExportMenu";
import { usePage } from "../shell/context";
import { type Spoken, scoresOf, sharesOf, unitsOf } from "./units";

export interface ExportedStrip {
  readonly name: string; // the method, or the model and the method
  readonly one: OneExplanation;
  readonly flow: Flow | null;
  readonly target: string; // as the legend names it
}

interface Props {
  readonly explanations: Spoken;
  readonly strips: readonly ExportedStrip[];
  readonly asWords: boolean;
  readonly caption: string;
  readonly name?: string;
}

const WIDTH = 860;

export function StripExport({ explanations, strips: all, asWords, caption, name = "text" }: Props) {
  const { theme } = usePage();
  const units = useMemo(() => unitsOf(explanations, asWords), [explanations, asWords]);
  const drawn = useMemo(() => {
    const shares = new Map<Flow, readonly number[]>();
    return all.map((each) => {
      const { flow, one } = each;
      if (flow && !shares.has(flow)) shares.set(flow, sharesOf(flow, units));
      return {
        name: each.name,
        target: each.target,
        scores: scoresOf(one, asWords),
        shares: flow ? (shares.get(flow) ?? null) : null,
        scale: scaleOf(one),
      };
    });
  }, [all, units, asWords]);
  const draw = useCallback(
    (chosen: Theme) => strips(units, drawn, { width: WIDTH, theme: chosen }),
    [units, drawn],
  );
  const scene = useMemo(() => draw(theme), [draw, theme]);
  return <ExportMenu name={name} caption={caption} scene={scene} theme={theme} draw={draw} />;
}
