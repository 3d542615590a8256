"""Intervals and tests: bootstrap, Clopper-Pearson, percentile of a null, sign flips, Holm, p of Kendall's tau.

Many columns about the same examples share one set of draws: a column is one method, or the difference of
two; NaN where an example could not be observed. One by one they would take minutes for a thousand examples
and twenty methods. Draws come from a key (`core.seed`): the tile size is part of the meaning of a key.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.core.seed import build_generator
from whence.stats.rank import kendall

Array = NDArray[np.float64]
SeedKey = tuple[str | int | Iterable[int], ...]

# Two values that differ by less than this part of the largest are tied: the same terms, added up in
# another order, differ by some 1e-16 a term, which must not count as a win.
TIE_TOLERANCE = 1e-12

# The bootstrap interval of fewer observations is about their range, and its coverage is too low.
MIN_OBSERVATIONS = 5

# Entries drawn at once. Part of the meaning of a key: another number gives other draws.
_TILE = 2**20


@dataclass(frozen=True)
class Interval:
    """A mean, or another statistic, of n observations, with its interval if n is at least `MIN_OBSERVATIONS`."""

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Percentile:
    """The percentage of `of` null values that are beaten, ties counted half, with its interval."""

    percent: float
    low: float
    high: float
    beaten: int
    tied: int
    of: int


def bootstrap(
    values: ArrayLike,
    key: SeedKey,
    *,
    statistic: Callable[[Array], float] | None = None,
    level: float = 0.95,
    draws: int = 10_000,
) -> Interval:
    """Return the mean of the values, or another statistic, with its percentile bootstrap interval.

    `values` is (n,), or (n, parts) with a statistic of such rows. Each draw resamples n rows with the
    key's own generator. Rows that are all equal give an interval of width 0, because unseen values
    are never drawn. Fewer than `MIN_OBSERVATIONS` rows have no interval.
    """
    rows = np.asarray(values, dtype=np.float64)
    n = len(rows)
    if not n:
        raise ValueError("There is no interval of no observations; ask for one where there is any.")
    estimate = float(rows.mean() if statistic is None else statistic(rows))
    if n < MIN_OBSERVATIONS:
        return Interval(estimate, None, None, n)
    if (rows == rows[0]).all():
        return Interval(estimate, estimate, estimate, n)
    draw = build_generator("bootstrap", *key)
    stats: list[Array] = []
    for times in _split_draws(draws, n):
        drawn = rows[draw.integers(n, size=(times, n))]
        stats.append(drawn.mean(1) if statistic is None else np.array([*map(statistic, drawn)]))
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(stats), [tail, 1 - tail])
    return Interval(estimate, float(low), float(high), n)


def clopper_pearson_interval(count: float, of: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of Clopper and Pearson for the share `count` out of `of`.

    `count` may end in a half, if ties count half: then the lower end is that of `count` rounded down,
    the upper end that of `count` rounded up. For `of` = 0 the interval is 0 to 1.
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
    """Return the percentage of null values that the value beats, counted exactly.

    Differences within 1e-12 of the largest value are ties (see `TIE_TOLERANCE`). If all are tied, the
    result is 50.
    """
    others = np.asarray(null, dtype=np.float64)
    if not len(others) or not np.isfinite(value) or not np.isfinite(others).all():
        raise ValueError(
            f"{value} cannot be placed among {len(others)} values, or not all are finite."
        )
    gain = value - others if higher_is_better else others - value
    same = np.abs(gain) <= TIE_TOLERANCE * max(abs(value), float(np.abs(others).max()))
    tied, beaten = int(same.sum()), int((gain[~same] > 0).sum())
    count = beaten + tied / 2
    low, high = clopper_pearson_interval(count, len(others))
    return Percentile(100 * count / len(others), 100 * low, 100 * high, beaten, tied, len(others))


def mean_of_known(values: Array, axis: int = 0) -> Array:
    """Return the means along an axis, ignoring NaN; NaN where all entries are NaN."""
    known = ~np.isnan(values)
    count = known.sum(axis)
    total = np.where(known, values, 0.0).sum(axis)
    mean: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    return mean


def smallest_p_value(n: int) -> float:
    """Return the smallest p value that `sign_flip_columns` can give for n differences."""
    return min(1.0, 2.0 ** (1 - n))


def count_needed_examples(comparisons: int, level: float) -> int:
    """Return the fewest examples with which one of `comparisons` Holm-adjusted p values can be low.

    Low is below `level`.
    """
    n = 1
    while comparisons * smallest_p_value(n) >= level:
        n += 1
    return n


def adjust_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p values adjusted by Holm's step-down procedure, in the order they came in.

    The i-th smallest of m is multiplied by m - i + 1, is no smaller than the one before it, and at most 1. Unknown
    ones stay unknown and do not count.
    """
    known = [place for place, p in enumerate(p_values) if p is not None]
    values = np.array([p_values[place] for place in known], dtype=np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted: list[float | None] = [None] * len(p_values)
    for place, p in zip(order, np.maximum.accumulate(steps), strict=True):
        adjusted[known[place]] = min(1.0, float(p))
    return adjusted


def kendall_p_value(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the two-sided p value of Kendall's tau-b, as scipy.stats.kendalltau has it: (rows,).

    Takes the arguments of `kendall`; NaN where tau is NaN.
    """
    from scipy.stats import kendalltau  # takes 0.3 s to import

    rows_a = np.atleast_2d(np.asarray(a, dtype=np.float64))
    rows_b = np.broadcast_to(np.atleast_2d(np.asarray(b, dtype=np.float64)), rows_a.shape)
    rows = zip(kendall(rows_a, rows_b), rows_a, rows_b, strict=True)
    return np.array([np.nan if np.isnan(tau) else kendalltau(x, y).pvalue for tau, x, y in rows])


def bootstrap_columns(
    columns: Array, key: SeedKey, *, level: float = 0.95, draws: int = 10_000
) -> list[Interval | None]:
    """Return the mean of each column with its bootstrap interval; None for a column of NaN."""
    intervals: list[Interval | None] = [None] * columns.shape[1]
    known = ~np.isnan(columns)
    for pattern in np.unique(known, axis=1).T:
        if not pattern.any():
            continue
        same = np.flatnonzero((known == pattern[:, None]).all(0))
        complete = columns[np.ix_(pattern, same)]
        own = _bootstrap_complete_columns(complete, key, level, draws)
        for place, interval in zip(same, own, strict=True):
            intervals[place] = interval
    return intervals


def _bootstrap_complete_columns(
    columns: Array, key: SeedKey, level: float, draws: int
) -> list[Interval]:
    """Return the bootstrap intervals of columns without NaN, from common draws of rows."""
    n = len(columns)
    means = columns.mean(0)
    if n < MIN_OBSERVATIONS:
        return [Interval(float(mean), None, None, n) for mean in means]
    draw = build_generator("bootstraps", n, *key)
    replicates = []
    for times in _split_draws(draws, n):
        places = draw.integers(n, size=(times, n)) + n * np.arange(times)[:, None]
        counts = np.bincount(places.ravel(), minlength=times * n).reshape(times, n)
        replicates.append(counts @ columns / n)
    tail = (1 - level) / 2
    lows, highs = np.quantile(np.concatenate(replicates), [tail, 1 - tail], axis=0)
    constant = (columns == columns[0]).all(0)  # rounding must not give their interval a width
    return [
        Interval(float(mean), float(mean), float(mean), n)
        if flat
        else Interval(float(mean), float(low), float(high), n)
        for mean, low, high, flat in zip(means, lows, highs, constant, strict=True)
    ]


def sign_flip_columns(columns: Array, key: SeedKey, draws: int = 10_000) -> list[float | None]:
    """Return the two-sided p value of the paired permutation test of each column; None for one of NaN.

    Are the differences centred on 0? If they are, each could as well have had the other sign. p is the share of sign
    assignments whose sum is at least as far from zero as the observed one. All assignments are tried if there are at
    most `draws`; else `draws` of them are drawn with the key's own generator, and the observed one counts as one more,
    which keeps p from being too small. Differences of zero have no sign and change nothing; without any others p is 1.
    """
    differences = np.where(np.isnan(columns), 0.0, columns)
    # Sums of the same terms in another order count as equal.
    observed = np.abs(differences.sum(0)) - TIE_TOLERANCE * np.abs(differences).sum(0)
    p_values: list[float | None] = [None] * columns.shape[1]
    many = []
    for place in np.flatnonzero(~np.isnan(columns).all(0)).tolist():
        values = differences[differences[:, place] != 0, place]
        if 2 ** len(values) <= draws:
            ways = (np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1
            as_far = np.abs((1 - 2 * ways) @ values) >= observed[place]
            p_values[place] = float(as_far.mean())
        else:
            many.append(place)
    if many:
        draw, n = build_generator("sign_flips", *key), len(columns)
        reached = np.zeros(len(many))
        for times in _split_draws(draws, n):
            ways = draw.integers(2, size=(times, n), dtype=np.int8)
            reached += (np.abs((1.0 - 2.0 * ways) @ differences[:, many]) >= observed[many]).sum(0)
        for place, count in zip(many, reached.tolist(), strict=True):
            p_values[place] = (1 + count) / (1 + draws)
    return p_values


def _split_draws(draws: int, n: int) -> list[int]:
    """Return how many draws of n entries are made at once, tile by tile."""
    per_tile = max(1, _TILE // n)
    return [min(per_tile, draws - start) for start in range(0, draws, per_tile)]
