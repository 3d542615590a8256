"""How alike two rankings are: many rows at once, against one row or against as many.

All take (rows, n) against (n,) or (rows, n) and return (rows,). The answer is NaN where a side has nothing to rank:
it is constant, has fewer than two entries, or holds one that is not finite.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def kendall(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Kendall's tau-b: pairs in the same order less pairs in opposite order, with regard to ties.

    tau_b = (C - D) / sqrt(pairs not tied in a · pairs not tied in b)
    """
    one, two, known = _sides(a, b)
    shape = known.shape
    agreed, apart_one, apart_two = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    # One entry against all later ones at a time: all pairs of all rows at once would not fit.
    for entry in range(one.shape[1] - 1):
        x, y = _orders(one, entry), _orders(two, entry)
        agreed += (x * y).sum(1, dtype=np.int64)
        apart_one += np.count_nonzero(x, axis=1)
        apart_two += np.count_nonzero(y, axis=1)
    return _divided(agreed, np.sqrt(apart_one * apart_two), known)


def spearman(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Spearman's rho: Pearson's correlation of the ranks, where ties share their mean rank."""
    one, two, known = _sides(a, b)
    return _correlation(ranks(one), ranks(two), known)


def pearson(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Pearson's correlation of the values themselves."""
    return _correlation(*_sides(a, b))


def top_k_overlap(a: ArrayLike, b: ArrayLike, k: int) -> Array:
    """Return the share of the k highest of `a` that are among the k highest of `b`.

    Ties at the edge are drawn by lot on either side: the answer is what is expected of that, without drawing. So a
    row with such ties overlaps with itself by less than 1. Random rows overlap by k / n; where k is n or more, all
    rows do by 1.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more. Got {k}.")
    one, two, known = _sides(a, b)
    k = min(k, one.shape[1])
    return _divided((_chosen(one, k) * _chosen(two, k)).sum(1), np.float64(k), known)


def ranks(a: ArrayLike) -> Array:
    """Return the ranks within each row, from 1 for the lowest; ties share their mean rank."""
    rows = _rows(a)
    order = np.argsort(rows, axis=1)
    sorted_rows = np.take_along_axis(rows, order, 1)
    rises = sorted_rows[:, 1:] != sorted_rows[:, :-1]
    edge = np.ones((len(rows), min(1, rows.shape[1])), dtype=bool)
    place = np.arange(rows.shape[1])
    first = np.maximum.accumulate(np.where(np.hstack([edge, rises]), place, 0), axis=1)
    ends = np.where(np.hstack([rises, edge]), place, len(place))
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    found = np.empty(rows.shape)
    np.put_along_axis(found, order, (first + last) / 2 + 1, 1)
    return found


def levelled(values: ArrayLike, grain: float) -> Array:
    """Make values equal that no more than `grain` keeps apart, one from the next: that is rounding, and no order.

    What is no farther than that from 0 is 0.
    """
    given = np.asarray(values, dtype=np.float64)
    order = np.argsort(given)
    steps = np.diff(given[order], prepend=-np.inf) > grain
    same: Array = np.empty_like(given)
    same[order] = given[order][np.maximum.accumulate(np.where(steps, np.arange(len(given)), 0))]
    return np.where(np.abs(same) <= grain, 0.0, same)


def _rows(a: ArrayLike) -> Array:
    return np.atleast_2d(np.asarray(a, dtype=np.float64))


def _sides(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return both sides as rows, and which rows can be compared."""
    one, two = _rows(a), _rows(b)
    if one.shape[1] != two.shape[1]:
        raise ValueError(
            f"Rows of {one.shape[1]} entries cannot be compared with rows of {two.shape[1]}."
        )
    if len(two) not in (1, len(one)):
        raise ValueError(
            f"{len(one)} rows cannot be compared with {len(two)}; give as many or one."
        )
    return _finite(one), _finite(two), _varies(one) & _varies(two)


def _varies(rows: Array) -> NDArray[np.bool_]:
    if rows.shape[1] < 2:
        return np.zeros(len(rows), dtype=bool)
    varies: NDArray[np.bool_] = (rows != rows[:, :1]).any(1) & np.isfinite(rows).all(1)
    return varies


def _finite(rows: Array) -> Array:
    return np.where(np.isfinite(rows), rows, 0.0)  # in rows whose answer is NaN


def _orders(rows: Array, entry: int) -> NDArray[np.int8]:
    """Return for each later entry whether it is above (1), level with (0) or below (-1) this one."""
    this, later = rows[:, entry, None], rows[:, entry + 1 :]
    return (later > this).view(np.int8) - (later < this).view(np.int8)


def _correlation(one: Array, two: Array, known: NDArray[np.bool_]) -> Array:
    x, y = _centred(one), _centred(two)
    spread = np.sqrt((x * x).sum(1) * (y * y).sum(1))
    # Rounding may carry a perfect correlation past 1.
    return np.clip(_divided((x * y).sum(1), spread, known), -1, 1)


def _centred(rows: Array) -> Array:
    """Return the rows less their means, of which the largest is 1: squares of small scores must not vanish."""
    moved = rows - rows.mean(1, keepdims=True) if rows.shape[1] else rows
    largest = np.abs(moved).max(1, keepdims=True, initial=0)
    scaled: Array = np.divide(moved, largest, out=np.zeros_like(moved), where=largest > 0)
    return scaled


def _chosen(rows: Array, k: int) -> Array:
    """Return how likely each entry is among the k highest when ties at the edge are drawn by lot."""
    if not rows.shape[1]:
        return rows
    edge = np.sort(rows, axis=1)[:, -k, None]
    above, level = rows > edge, rows == edge
    left = k - above.sum(1, keepdims=True)
    likely: Array = above + level * left / level.sum(1, keepdims=True)
    return likely


def _divided(over: ArrayLike, under: ArrayLike, known: NDArray[np.bool_]) -> Array:
    found: Array = np.divide(over, under, out=np.full(known.shape, np.nan), where=known)
    return found
