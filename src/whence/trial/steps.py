"""Going through a ranking in steps: how many units go at each, and what the model says then."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np

from whence.core.errors import BadParameter
from whence.trial.removed import Numbers
from whence.trial.trial import Trial

Counts = Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]


def shares_in(owner: str, bins: str) -> list[Decimal]:
    """Read the shares that the `bins` of a metric name, exactly as they are written."""
    try:
        shares = [Decimal(part.strip()) for part in bins.split(",")]
        fits = all(0 <= share <= 1 for share in shares)
    except InvalidOperation:  # not a number, which Decimal can also be called
        fits = False
    if not fits or any(late <= early for early, late in pairwise(shares)):
        raise BadParameter(
            f"The 'bins' parameter of {owner} must be rising shares from 0 to 1, like '0.01,0.05,0.1,0.2,0.5'. "
            f"Got {bins!r}."
        )
    return shares


def count_of(share: Decimal, units: int) -> int:
    """Return how many units a share of them is, rounded up. As decimals, 0.1 of 30 are 3 and no hair more."""
    return ceil(share * units)


def evenly(units: int, steps: int) -> list[int]:
    """Return so many counts, spread from above 0 to all units, rounded up; where units are few, every count."""
    return sorted({-(-units * step // steps) for step in range(1, steps + 1)})


def most(trial: Trial) -> int:
    """Return how many units can be gone at once: all, unless deleting them would leave nothing of the input."""
    nothing_else = sum(map(len, trial.units)) == len(trial.item)
    return len(trial.units) - (trial.removed.how == "delete" and nothing_else)


def without_highest(trial: Trial, counts: Counts) -> Numbers:
    """Return the target's probability with so many of the highest units removed, (explanations, counts).

    `counts` are the same for all explanations, or a row for each; more than can be gone count as that many. An
    explanation that ranks nothing has NaN.
    """
    return _probability(trial, counts, [order.tolist() for order in trial.orders])


def without_lowest(trial: Trial, counts: Counts) -> Numbers:
    """Return the target's probability with so many of the lowest units removed, (explanations, counts)."""
    return _probability(trial, counts, [order[::-1].tolist() for order in trial.orders])


def area(heights: Numbers, at: Numbers) -> Numbers:
    """Return the area under each row by the trapezoid rule."""
    middles: Numbers = (heights[:, 1:] + heights[:, :-1]) / 2
    return np.asarray(middles @ np.diff(at))


def _probability(trial: Trial, counts: Counts, orders: list[list[int]]) -> Numbers:
    each = np.broadcast_to(np.minimum(counts, most(trial)), (len(orders), np.shape(counts)[-1]))
    ranks = np.flatnonzero(~trial.flat)
    holes = [orders[row][:count] for row in ranks for count in each[row]]
    found = np.full(each.shape, np.nan)
    found[ranks] = trial.removed.probability(holes).reshape(len(ranks), each.shape[1])
    return found
