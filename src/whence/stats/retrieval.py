"""How well scores find the tokens that people marked: areas under curves, ties taken as scikit-learn takes them.

All take what was marked, (n,), and scores, (n,) or (rows, n), and return (rows,). Tokens of one score enter a curve
together, whatever their order.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.stats.rank import ranks

Array = NDArray[np.float64]


def auprc(marked: ArrayLike, scores: ArrayLike) -> Array:
    """Return the area under precision over recall by the trapezoid rule, from recall 0 at precision 1.

    ERASER's figure. Where everything is marked it is 1. Where nothing is, recall counts as 1 from the first token on
    and the area is a half: as in the authors' code, and without meaning.
    """
    step, precision, before = _curve(*_sides(marked, scores))
    area: Array = (step * (precision + before) / 2).sum(1)
    return area


def average_precision(marked: ArrayLike, scores: ArrayLike) -> Array | None:
    """Return the mean of the precision over the steps of recall; None where all or none are marked."""
    truth, rows = _sides(marked, scores)
    if truth.all() or not truth.any():
        return None
    step, precision, _ = _curve(truth, rows)
    mean: Array = (step * precision).sum(1)
    return mean


def roc_auc(marked: ArrayLike, scores: ArrayLike) -> Array | None:
    """Return how likely a marked token has more than one that is not, ties half; None where there is no such pair."""
    truth, rows = _sides(marked, scores)
    hits, rest = int(truth.sum()), int((~truth).sum())
    if not hits or not rest:
        return None
    above: Array = ranks(rows)[:, truth].sum(1) - hits * (hits + 1) / 2  # pairs that are so ordered
    return above / (hits * rest)


def _sides(marked: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], Array]:
    truth, rows = (
        np.asarray(marked, dtype=bool),
        np.atleast_2d(np.asarray(scores, dtype=np.float64)),
    )
    if not len(truth) or rows.shape[1] != len(truth):
        raise ValueError(f"Rows of {rows.shape[1]} scores do not fit {len(truth)} tokens.")
    return truth, rows


def _curve(truth: NDArray[np.bool_], rows: Array) -> tuple[Array, Array, Array]:
    """Return, for each place in falling order, the step of recall, the precision, and that at the step before.

    A place where the next has the same score is no point of the curve: its step is 0.
    """
    order = np.argsort(-rows, axis=1)
    falling = np.take_along_axis(rows, order, 1)
    last = np.ones((len(rows), 1), dtype=bool)
    points = np.hstack([falling[:, 1:] != falling[:, :-1], last])
    hits = np.cumsum(truth[order], axis=1)
    place = np.arange(rows.shape[1])
    precision = hits / (place + 1)
    recall = hits / truth.sum() if truth.any() else np.ones(rows.shape)
    # The point before, counted from 1; 0 is where the curve starts, at recall 0 and precision 1.
    before = np.maximum.accumulate(np.where(points, place + 1, 0), axis=1)
    before = np.hstack([0 * before[:, :1], before[:, :-1]])
    start = np.ones((len(rows), 1))
    reached = np.take_along_axis(np.hstack([0 * start, recall]), before, 1)
    held = np.take_along_axis(np.hstack([start, precision]), before, 1)
    return np.where(points, recall - reached, 0.0), precision, held
