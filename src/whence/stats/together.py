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
