/** Table of the flow views by name, with their draw functions: ladder, rings, Sankey, heat map, network. */

import type { VisibleFlow } from "../flow/visibleFlow";
import type { ViewName } from "../state/state";
import type { FlowOptions } from "./flowmarks";
import { drawHeatmap } from "./heatmap";
import { drawLadder } from "./ladder";
import { drawNetwork } from "./network";
import { drawRings } from "./rings";
import { drawSankey } from "./sankey";
import type { Scene } from "./scene";

export const VIEWS: Readonly<Record<ViewName, (visible: VisibleFlow, options: FlowOptions) => Scene>> = {
  ladder: drawLadder,
  rings: drawRings,
  sankey: drawSankey,
  heatmap: drawHeatmap,
  network: drawNetwork,
};
