"""How likely a rank correlation is by chance: the p value of Kendall's tau, many rows at once."""

from functools import cache
from math import erfc, factorial, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.stats.rank import kendall

Array = NDArray[np.float64]

# Up to so many entries without ties the orders are counted; above, the normal distribution is near enough.
_COUNTED = 33


def kendall_p(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the two-sided p value of Kendall's tau-b, by the rules of scipy.stats.kendalltau: (rows,).

    Takes what `kendall` takes. Without ties it is exact for up to 33 entries, and for any number of them where all
    pairs but one at most are in the same order (or all in the opposite one); else it comes from the normal
    distribution, with regard to ties. NaN where tau is.
    """
    one = np.atleast_2d(np.asarray(a, dtype=np.float64))
    two = np.broadcast_to(np.atleast_2d(np.asarray(b, dtype=np.float64)), one.shape)
    rows = zip(kendall(one, two), one, two, strict=True)
    return np.array([np.nan if np.isnan(tau) else _p(tau, x, y) for tau, x, y in rows])


def _p(tau: float, one: Array, two: Array) -> float:
    n = len(one)
    pairs = n * (n - 1) / 2
    ties = _ties(one), _ties(two)
    apart = [pairs - float((sizes * (sizes - 1)).sum()) / 2 for sizes in ties]
    score = round(
        abs(tau) * sqrt(apart[0] * apart[1])
    )  # |pairs in one order less pairs in the other|
    rarer = round((pairs - score) / 2)  # pairs in the rarer order, if there are no ties
    if apart == [pairs, pairs] and (n <= _COUNTED or rarer <= 1):
        return _counted(n, rarer)
    return erfc(score / sqrt(2 * _variance(n, *ties)))


def _ties(row: Array) -> Array:
    """Return how many entries share a value, for each value."""
    return np.unique(row, return_counts=True)[1].astype(np.float64)


def _variance(n: int, one: Array, two: Array) -> float:
    """Return the variance of the pairs in the same order less those in opposite order, by chance (Kendall 1970)."""
    every = n * (n - 1.0)
    found = every * (2 * n + 5)
    found -= sum(float((sizes * (sizes - 1) * (2 * sizes + 5)).sum()) for sizes in (one, two))
    found /= 18
    twos = [float((sizes * (sizes - 1)).sum()) for sizes in (one, two)]
    found += twos[0] * twos[1] / (2 * every)
    threes = [float((sizes * (sizes - 1) * (sizes - 2)).sum()) for sizes in (one, two)]
    return found + (threes[0] * threes[1] / (9 * every * (n - 2)) if n > 2 else 0.0)


@cache
def _counted(n: int, rarer: int) -> float:
    """Return twice the share of the orders of n entries that set at most so many pairs apart, and at most 1."""
    if rarer == 0 or rarer == 1:  # n may be large
        return min(1.0, 2 / factorial(n - rarer)) if n - rarer < 171 else 0.0
    # Orders of j entries by pairs apart: the last may be put in j places, each of which sets one more pair apart.
    ways = [1] + [0] * rarer
    for j in range(2, n + 1):
        ways = [sum(ways[max(0, pairs - j + 1) : pairs + 1]) for pairs in range(rarer + 1)]
    return min(1.0, 2 * sum(ways) / factorial(n))
