"""Similarity of rankings, row by row: Kendall, Spearman, Pearson, top-k overlap; ranks and levelling of ties.

All take (rows, n) against (n,) or (rows, n) and return (rows,). The result is NaN where a side has nothing
to rank: it is constant, has fewer than two entries, or holds one that is not finite.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def kendall(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Kendall's tau-b: concordant minus discordant pairs, normalised with regard to ties.

    tau_b = (C - D) / sqrt(pairs not tied in a · pairs not tied in b)
    """
    rows_a, rows_b, known = _align_rows(a, b)
    shape = known.shape
    agreed, apart_a, apart_b = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    # One entry against all later ones at a time: all pairs of all rows would not fit into memory.
    for entry in range(rows_a.shape[1] - 1):
        x, y = _compare_with_later(rows_a, entry), _compare_with_later(rows_b, entry)
        agreed += (x * y).sum(1, dtype=np.int64)
        apart_a += np.count_nonzero(x, axis=1)
        apart_b += np.count_nonzero(y, axis=1)
    return _divide_where_known(agreed, np.sqrt(apart_a * apart_b), known)


def spearman(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Spearman's rho: Pearson's correlation of the ranks, where ties share their mean rank."""
    rows_a, rows_b, known = _align_rows(a, b)
    return _correlation(rank_rows(rows_a), rank_rows(rows_b), known)


def pearson(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Pearson's correlation of the values themselves."""
    return _correlation(*_align_rows(a, b))


def top_k_overlap(a: ArrayLike, b: ArrayLike, k: int) -> Array:
    """Return the share of the k highest of `a` that are among the k highest of `b`.

    Ties at the edge count as drawn by lot on either side: the result is the expected value, without
    drawing. So a row with such ties overlaps with itself by less than 1. Random rows overlap by k / n;
    if k is n or more, all rows overlap by 1.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more. Got {k}.")
    rows_a, rows_b, known = _align_rows(a, b)
    k = min(k, rows_a.shape[1])
    return _divide_where_known(
        (_compute_top_k_probabilities(rows_a, k) * _compute_top_k_probabilities(rows_b, k)).sum(1),
        np.float64(k),
        known,
    )


def rank_rows(a: ArrayLike) -> Array:
    """Return the ranks within each row, from 1 for the lowest; ties share their mean rank."""
    rows = _to_rows(a)
    ranks = np.empty(rows.shape)
    for row, own in zip(rows, ranks, strict=True):
        _, value, ties = np.unique(row, return_inverse=True, return_counts=True)
        own[:] = (np.cumsum(ties) - (ties - 1) / 2)[value]
    return ranks


def level_ties(values: ArrayLike, grain: float) -> Array:
    """Set values equal whose neighbours in order are at most `grain` apart, which is rounding.

    Values within `grain` of 0 become 0.
    """
    numbers = np.asarray(values, dtype=np.float64)
    order = np.argsort(numbers)
    steps = np.diff(numbers[order], prepend=-np.inf) > grain
    same: Array = np.empty_like(numbers)
    same[order] = numbers[order][np.maximum.accumulate(np.where(steps, np.arange(len(numbers)), 0))]
    return np.where(np.abs(same) <= grain, 0.0, same)


def _to_rows(a: ArrayLike) -> Array:
    return np.atleast_2d(np.asarray(a, dtype=np.float64))


def _align_rows(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return both sides as rows, and which rows can be compared."""
    x, y = _to_rows(a), _to_rows(b)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"Rows of {x.shape[1]} entries cannot be compared with rows of {y.shape[1]}."
        )
    if len(y) not in (1, len(x)):
        raise ValueError(f"{len(x)} rows cannot be compared with {len(y)}; give as many or one.")
    return _replace_non_finite(x), _replace_non_finite(y), _has_order(x) & _has_order(y)


def _has_order(rows: Array) -> NDArray[np.bool_]:
    if rows.shape[1] < 2:
        return np.zeros(len(rows), dtype=bool)
    varies: NDArray[np.bool_] = (rows != rows[:, :1]).any(1) & np.isfinite(rows).all(1)
    return varies


def _replace_non_finite(rows: Array) -> Array:
    return np.where(np.isfinite(rows), rows, 0.0)  # the result of such rows is NaN in any case


def _compare_with_later(rows: Array, entry: int) -> NDArray[np.int8]:
    """Return whether each later entry is above (1), equal to (0) or below (-1) this one."""
    this, later = rows[:, entry, None], rows[:, entry + 1 :]
    return (later > this).view(np.int8) - (later < this).view(np.int8)


def _correlation(rows_a: Array, rows_b: Array, known: NDArray[np.bool_]) -> Array:
    x, y = _centre_rows(rows_a), _centre_rows(rows_b)
    spread = np.sqrt((x * x).sum(1) * (y * y).sum(1))
    # Rounding may push a perfect correlation past 1.
    return np.clip(_divide_where_known((x * y).sum(1), spread, known), -1, 1)


def _centre_rows(rows: Array) -> Array:
    """Return the rows minus their means, scaled to maximum 1: squares of small scores would vanish."""
    moved = rows - rows.mean(1, keepdims=True) if rows.shape[1] else rows
    largest = np.abs(moved).max(1, keepdims=True, initial=0)
    scaled: Array = np.divide(moved, largest, out=np.zeros_like(moved), where=largest > 0)
    return scaled


def _compute_top_k_probabilities(rows: Array, k: int) -> Array:
    """Return the probability of each entry to be among the k highest, ties at the edge by lot."""
    if not rows.shape[1]:
        return rows
    edge = np.sort(rows, axis=1)[:, -k, None]
    above, level = rows > edge, rows == edge
    left = k - above.sum(1, keepdims=True)
    likely: Array = above + level * left / level.sum(1, keepdims=True)
    return likely


def _divide_where_known(over: ArrayLike, under: ArrayLike, known: NDArray[np.bool_]) -> Array:
    ratios: Array = np.divide(over, under, out=np.full(known.shape, np.nan), where=known)
    return ratios
