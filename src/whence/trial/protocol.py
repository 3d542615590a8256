"""How many tokens go at each step of AOPC and log-odds: soundly, or as the authors of AttCAT count."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from whence.trial.removed import Numbers
from whence.trial.steps import evenly
from whence.trial.trial import Trial

Counting = Literal["units", "attcat"]
ATTCAT_STEPS = 9
_ATTCAT_LEAST = 10  # tokens: they skip shorter inputs


@dataclass(frozen=True)
class Plan:
    """How many of the highest units are gone at each step, for each explanation; nothing at the first."""

    gone: np.ndarray[Any, np.dtype[np.int64]]  # (explanations, steps)
    at: Numbers  # the shares


def counted(trial: Trial, steps: int, counting: Counting) -> Plan | str:
    """Return the steps, or why there are none.

    "units" counts what can be removed, in even steps and to the last. "attcat" does what the authors' code does: it
    counts shares of all tokens, special ones too, and then removes so many of those that are not special, or all; and
    it never reaches the last place of the ranking of all tokens, so that the one there stays unless it is special.
    """
    units, rows = len(trial.units), len(trial.names)
    if counting == "units":
        gone = np.array([0, *evenly(units, steps)])
        return Plan(np.tile(gone, (rows, 1)), gone / units)
    inside = {place for unit in trial.units for place in unit}
    others = [place for place in range(len(trial.item)) if place not in inside]
    places = units + len(others)
    if places < _ATTCAT_LEAST:
        return (
            f"The input has {places} tokens with special ones; the authors of AttCAT skip inputs of fewer than "
            f"{_ATTCAT_LEAST}."
        )
    counts = np.unique(np.round(np.linspace(0, 1, steps + 1) * places).astype(np.int64))
    lowest_other = trial.scores[:, others].min(1, initial=np.inf)
    last_stays = trial.values.min(1) < lowest_other
    return Plan(np.minimum(counts, units - last_stays[:, None]), counts / places)
