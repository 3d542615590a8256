"""What people marked, and what an explanation would have marked in their place."""

from decimal import Decimal
from typing import Any

import numpy as np

from whence.trial.steps import count_of
from whence.trial.trial import Trial


def unmarked(trial: Trial) -> str | None:
    """Say why no explanation of this input can be compared with what people marked, if so."""
    if trial.item.picture is not None:
        return "It compares tokens of a text with a rationale; for pictures with masks there is segmentation."
    if trial.marked is None:
        return "There is no human rationale for this input."
    if not any(trial.marked):
        return "The human rationale marks nothing of this input: there is nothing to find."
    if all(trial.marked):
        return "The human rationale marks all of this input: nothing could be wrong."
    return None


def chosen(trial: Trial, top: float | None) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which units each explanation puts highest, (explanations, units).

    They are a share of `top` of all units, rounded up and at least one, or as many as people marked.
    """
    units = len(trial.units)
    count = sum(trial.marked or ()) if top is None else max(1, count_of(Decimal(str(top)), units))
    found = np.zeros((len(trial.names), units), dtype=bool)
    np.put_along_axis(found, trial.orders[:, :count], True, axis=1)
    return found
