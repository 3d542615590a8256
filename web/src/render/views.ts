/** The five pictures of one flow, by name. */

import type { ShownFlow } from "../flow/shown";
import type { ViewName } from "../state/state";
import type { FlowOptions } from "./flowmarks";
import { heatmap } from "./heatmap";
import { ladder } from "./ladder";
import { network } from "./network";
import { rings } from "./rings";
import { sankey } from "./sankey";
import type { Scene } from "./scene";

export const VIEWS: Readonly<Record<ViewName, (shown: ShownFlow, options: FlowOptions) => Scene>> = {
  ladder,
  rings,
  sankey,
  heatmap,
  network,
};
