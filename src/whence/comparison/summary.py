"""From one number for each input to a mean with its interval; NaN stands for what an input could not tell."""

from typing import Any

import numpy as np

from whence.stats import Interval, holm, needed
from whence.stats.together import bootstraps, sign_flips

Array = np.ndarray[Any, np.dtype[np.float64]]
Facts = dict[str, Any]

LEVEL = 0.05
_COLUMNS = 256  # at once, for memory's sake
_NOTHING: Facts = {"mean": None, "low": None, "high": None, "n": 0}


class Summary:
    """Makes intervals and tests of numbers about the same inputs, in one order and with one seed."""

    def __init__(self, order: list[int], seed: int) -> None:
        """`order` makes the same inputs in another order the same data set."""
        self._order = order
        self._key = ("compare", seed)

    def means(self, values: Array) -> list[Facts]:
        """Return the mean and interval of each column of (inputs, columns)."""
        ordered = values[self._order]
        found: list[Facts] = []
        for start in range(0, ordered.shape[1], _COLUMNS):
            some = bootstraps(ordered[:, start : start + _COLUMNS], self._key)
            found += [told(one) for one in some]
        return found

    def mean(self, values: Array) -> Facts:
        """Return the mean and interval of one number for each input."""
        return self.means(values[:, None])[0]

    def pairs(self, a: Array, b: Array) -> list[Facts]:
        """Return each column of both models and of the change from one to the other."""
        sides = [self.means(side) for side in (a, b, b - a)]
        return [
            {"a": one, "b": two, "change": change} for one, two, change in zip(*sides, strict=True)
        ]

    def surely(self, differences: Array) -> list[bool]:
        """Say of each column whether it differs from zero by more than chance, corrected for their number."""
        found = sign_flips(differences[self._order], self._key)
        known = [place for place, p in enumerate(found) if p is not None]
        corrected = holm([p for p in found if p is not None])
        sure = [False] * len(found)
        for place, p in zip(known, corrected, strict=True):
            sure[place] = p < LEVEL
        return sure


def told(interval: Interval | None) -> Facts:
    """Return an interval as plain data."""
    if interval is None:
        return dict(_NOTHING)
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


def enough(inputs: int, comparisons: int) -> bool:
    """Say whether so many inputs could show any of so many differences at all."""
    return inputs >= needed(max(1, comparisons), LEVEL)
