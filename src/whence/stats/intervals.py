"""How sure a number is: the bootstrap for means, Clopper and Pearson for shares."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.core.seed import generator

Array = NDArray[np.float64]
Key = tuple[str | int | Iterable[int], ...]

# Two values that differ by less than this part of the largest are one value: the same terms, added up in another
# order, differ by some 1e-16 a term, and that is no victory.
SAME = 1e-12

# The bootstrap of fewer observations is from the least of them to the greatest, or nearly, and covers too seldom.
FEWEST = 5

# Entries that are drawn at once. It is part of what a key means: another number, other draws.
_TILE = 2**20


@dataclass(frozen=True)
class Interval:
    """A mean, or another statistic, of n observations, and where it may lie: not known of fewer than `FEWEST`."""

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Percentile:
    """How many percent of `of` null values are beaten, ties counted half, with the interval of that share."""

    percent: float
    low: float
    high: float
    beaten: int
    tied: int
    of: int


def bootstrap(
    values: ArrayLike,
    key: Key,
    *,
    statistic: Callable[[Array], float] | None = None,
    level: float = 0.95,
    draws: int = 10_000,
) -> Interval:
    """Return the mean of the values, or another statistic of their rows, with its percentile bootstrap interval.

    `values` is (n,), or (n, parts) with a statistic that makes one number of such rows. The rows are drawn anew n at
    a time with the key's own generator. Rows that are all alike give an interval of no width: what was never seen is
    never drawn. Fewer than `FEWEST` rows have no interval.
    """
    rows = np.asarray(values, dtype=np.float64)
    n = len(rows)
    if not n:
        raise ValueError("There is no interval of no observations; ask for one where there is any.")
    found = float(rows.mean() if statistic is None else statistic(rows))
    if n < FEWEST:
        return Interval(found, None, None, n)
    if (rows == rows[0]).all():
        return Interval(found, found, found, n)
    draw = generator("bootstrap", *key)
    again: list[Array] = []
    each = max(1, _TILE // n)
    for start in range(0, draws, each):
        drawn = rows[draw.integers(n, size=(min(each, draws - start), n))]
        again.append(drawn.mean(1) if statistic is None else np.array([*map(statistic, drawn)]))
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(again), [tail, 1 - tail])
    return Interval(found, float(low), float(high), n)


def proportion(count: float, of: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of Clopper and Pearson for a share of which `count` were seen.

    `count` may end in a half, as it does where ties count half: the lower end is then that of the half lost, the
    upper end that of the half won. Of nothing nothing is known: from 0 to 1.
    """
    from scipy.special import betaincinv

    if not 0 <= count <= of:
        raise ValueError(f"The count must be from 0 to {of}. Got {count}.")
    tail = (1 - level) / 2
    least, most = floor(count), ceil(count)
    low = betaincinv(least, of - least + 1, tail) if least > 0 else 0.0
    high = betaincinv(most + 1, of - most, 1 - tail) if most < of else 1.0
    return float(low), float(high)


def percentile(value: float, null: ArrayLike, higher_is_better: bool) -> Percentile:
    """Return how much of the null the value beats, in percent, counted exactly.

    Values within 1e-12 of the largest are ties (`SAME` says why). Where everything ties the answer is 50.
    """
    others = np.asarray(null, dtype=np.float64)
    if not len(others) or not np.isfinite(value) or not np.isfinite(others).all():
        raise ValueError(
            f"{value} cannot be placed among {len(others)} values, or not all are finite."
        )
    gain = value - others if higher_is_better else others - value
    same = np.abs(gain) <= SAME * max(abs(value), float(np.abs(others).max()))
    tied, beaten = int(same.sum()), int((gain[~same] > 0).sum())
    count = beaten + tied / 2
    low, high = proportion(count, len(others))
    return Percentile(100 * count / len(others), 100 * low, 100 * high, beaten, tied, len(others))


"""Means of what is known, where NaN stands for what is not."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def mean_of_known(values: Array, axis: int = 0) -> Array:
    """Return the means along an axis without the entries that are NaN; NaN where there is no other."""
    known = ~np.isnan(values)
    count = known.sum(axis)
    total = np.where(known, values, 0.0).sum(axis)
    mean: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    return mean


"""Are two methods different? Tests on the differences of the same examples, and their correction for being many."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from whence.core.seed import generator
from whence.stats.interval import SAME, Key

_TILE = 2**20  # signs at once; part of what a key means


def sign_flip(differences: ArrayLike, key: Key, draws: int = 10_000) -> float:
    """Return the two-sided p value of the paired permutation test: are the differences centred on zero?

    If they are, each could as well have had the other sign. p is the share of the ways to set the signs in which the
    sum is as far from zero as it was seen, or farther. All ways are gone through if there are no more than `draws`;
    else so many are drawn with the key's own generator, and what was seen counts as one of them, which keeps p from
    being too small. Differences of zero have no sign and change nothing; where there are no others p is 1.
    """
    given = np.asarray(differences, dtype=np.float64)
    given = given[given != 0]
    n = len(given)
    # Sums of the same terms in another order are the same sum.
    seen = abs(float(given.sum())) - SAME * float(np.abs(given).sum())
    if 2**n <= draws:
        ways = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return float((np.abs((1 - 2 * ways) @ given) >= seen).mean())
    draw = generator("sign_flip", *key)
    each = max(1, _TILE // n)
    as_far = 0
    for start in range(0, draws, each):
        ways = draw.integers(2, size=(min(each, draws - start), n), dtype=np.int8)
        as_far += int((np.abs((1.0 - 2.0 * ways) @ given) >= seen).sum())
    return (1 + as_far) / (1 + draws)


def least_p(n: int) -> float:
    """Return the smallest p value that `sign_flip` can give to n differences, whatever they are."""
    return min(1.0, 2.0 ** (1 - n))


def needed(comparisons: int, level: float) -> int:
    """Return from how many examples on one of so many p values, corrected by `holm`, can be below the level."""
    n = 1
    while comparisons * least_p(n) >= level:
        n += 1
    return n


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm's step-down procedure, in the order they came in.

    The i-th smallest of m is multiplied by m - i + 1, is no smaller than the one before it, and at most 1.
    """
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps))
    return [float(p) for p in adjusted]


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


"""Intervals and tests of many columns of numbers about the same examples, with the same draws for all of them.

A column is one method, or the difference of two; NaN where an example could not be observed. One by one they would
take minutes for what a data set of a thousand examples and twenty methods has to compare.
"""

import numpy as np
from numpy.typing import NDArray

from whence.core.seed import generator
from whence.stats.interval import FEWEST, SAME, Interval, Key
from whence.stats.paired import sign_flip

Array = NDArray[np.float64]

_TILE = 2**20  # entries at once; part of what a key means


def bootstraps(
    columns: Array, key: Key, *, level: float = 0.95, draws: int = 10_000
) -> list[Interval | None]:
    """Return the mean of each column with its percentile bootstrap interval; None for a column without any number."""
    found: list[Interval | None] = [None] * columns.shape[1]
    seen = ~np.isnan(columns)
    for pattern in np.unique(seen, axis=1).T:
        same = np.flatnonzero((seen == pattern[:, None]).all(0))
        if not pattern.any():
            continue
        for place, interval in zip(
            same, _alike(columns[np.ix_(pattern, same)], key, level, draws), strict=True
        ):
            found[place] = interval
    return found


def _alike(columns: Array, key: Key, level: float, draws: int) -> list[Interval]:
    """Draw the rows of columns that have a number in each of them."""
    n = len(columns)
    means = columns.mean(0)
    if n < FEWEST:
        return [Interval(float(mean), None, None, n) for mean in means]
    draw = generator("bootstraps", n, *key)
    each = max(1, _TILE // n)
    again = []
    for start in range(0, draws, each):
        times = min(each, draws - start)
        places = draw.integers(n, size=(times, n)) + n * np.arange(times)[:, None]
        counts = np.bincount(places.ravel(), minlength=times * n).reshape(times, n)
        again.append(counts @ columns / n)
    tail = (1 - level) / 2
    lows, highs = np.quantile(np.concatenate(again), [tail, 1 - tail], axis=0)
    constant = (columns == columns[0]).all(0)  # rounding must not give it a width
    return [
        Interval(float(mean), float(mean), float(mean), n)
        if flat
        else Interval(float(mean), float(low), float(high), n)
        for mean, low, high, flat in zip(means, lows, highs, constant, strict=True)
    ]


def sign_flips(columns: Array, key: Key, draws: int = 10_000) -> list[float | None]:
    """Return the p value of the sign-flip test (see `sign_flip`) of each column; None for one without any number."""
    kept = np.where(np.isnan(columns), 0.0, columns)  # a difference of zero changes nothing
    found: list[float | None] = [None] * columns.shape[1]
    many = []
    for place in np.flatnonzero(~np.isnan(columns).all(0)):
        # Beyond 64 there are more ways than any draws, and a power that no float holds.
        if 2 ** min(64, int(np.count_nonzero(kept[:, place]))) <= draws:
            found[place] = sign_flip(kept[:, place], key, draws)
        else:
            many.append(place)
    if many:
        for place, p in zip(many, _drawn(kept[:, many], key, draws), strict=True):
            found[place] = float(p)
    return found


def _drawn(columns: Array, key: Key, draws: int) -> Array:
    n = len(columns)
    seen = np.abs(columns.sum(0)) - SAME * np.abs(columns).sum(0)
    draw = generator("sign_flips", *key)
    each = max(1, _TILE // n)
    as_far = np.zeros(columns.shape[1])
    for start in range(0, draws, each):
        ways = draw.integers(2, size=(min(each, draws - start), n), dtype=np.int8)
        as_far += (np.abs((1.0 - 2.0 * ways) @ columns) >= seen).sum(0)
    found: Array = (1 + as_far) / (1 + draws)
    return found
