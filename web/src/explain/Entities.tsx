/** Choice among the entities that a tagger found, with label and probability; the chosen one is explained. */

import type { Explanations } from "../api/types";
import { showInvisible } from "../render/text";
import type { ViewState } from "../state/state";

interface Props {
  readonly explanations: Explanations;
  readonly chosen: number;
  readonly onChange: (change: Pick<ViewState, "entity" | "target">) => void;
}

/** Show the entities as a choice; nothing for other tasks. */
export function Entities({ explanations: { entities }, chosen, onChange }: Props) {
  if (entities.length === 0) return null;
  return (
    <fieldset className="targets entities">
      <legend>Found</legend>
      {entities.map(({ text, label, probability }, place) => (
        <label key={place} className="target">
          <input
            type="radio"
            name="entity"
            checked={place === chosen}
            onChange={() => onChange({ entity: place, target: null })}
          />
          <span className="name" dir="auto">
            {showInvisible(text)}
          </span>
          <span className="dim">{label}</span>
          {probability !== null && <span className="number">{probability.toFixed(3)}</span>}
        </label>
      ))}
    </fieldset>
  );
}
