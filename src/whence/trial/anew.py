"""How alike an explanation and itself are, when it is made anew under a change."""

import numpy as np

from whence.stats import spearman
from whence.trial.changes import Change
from whence.trial.removed import Numbers
from whence.trial.trial import Trial

_FLAT = "Made anew, it gives the same score to all tokens: there is no ranking to compare with."


def alike(trial: Trial, change: Change, *, sizes: bool = False) -> tuple[Numbers, dict[int, str]]:
    """Return Spearman's correlation of each explanation with itself under `change`, or why there is none.

    With `sizes`, signs do not count. An explanation that ranks nothing in the first place is not made anew: it has
    NaN, and no reason here.
    """
    own = np.abs(trial.values) if sizes else trial.values
    rows = np.flatnonzero((own != own[:, :1]).any(1)).tolist()
    anew = trial.again(change, rows)
    other = trial.by_unit(anew.scores)
    found = spearman(own, np.abs(other) if sizes else other)
    return found, {row: anew.why_not.get(row, _FLAT) for row in rows if np.isnan(found[row])}
