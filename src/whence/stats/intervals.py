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
