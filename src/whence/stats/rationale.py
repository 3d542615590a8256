"""ERASER's figures for chosen tokens (DeYoung et al. 2020), as its code computes them.

An *instance* is one text with two sets of spans: those that were predicted and those that people marked, the gold.
Each instance becomes `Counts`, and the counts of a data set become `Rates`.
"""

from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass

Span = tuple[int, int]  # the first place, and the one after the last


def _ratio(part: float, of: float) -> float:
    return part / of if of else 0.0


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; 0 where both are."""
    return _ratio(2 * precision * recall, precision + recall)


@dataclass(frozen=True)
class Rates:
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Counts:
    """How much was predicted in one instance, how much is gold, and how much of the first hits the second.

    Where nothing was predicted the precision is 0, where nothing is gold the recall: nothing was found.
    """

    hits: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """The share of what was predicted that hits."""
        return _ratio(self.hits, self.predicted)

    @property
    def recall(self) -> float:
        """The hits by the number of what there is to hit."""
        return _ratio(self.hits, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return f1(self.precision, self.recall)


def runs(chosen: Iterable[bool]) -> list[Span]:
    """Return the longest runs of neighbours that were chosen, as spans."""
    found: list[Span] = []
    for place, yes in enumerate(chosen):
        if not yes:
            continue
        if found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found


def tokens(predicted: Iterable[Span], gold: Iterable[Span]) -> Counts:
    """Count the tokens within the spans; one that lies in several counts once."""
    return _common(_places(predicted), _places(gold))


def exact(predicted: Iterable[Span], gold: Iterable[Span]) -> Counts:
    """Count spans; a hit is a span that is the same to the token."""
    return _common(set(predicted), set(gold))


def overlapping(predicted: Iterable[Span], gold: Iterable[Span], threshold: float = 0.5) -> Counts:
    """Count spans; a hit is a predicted span that some gold span covers well.

    Covering well is an intersection over union of at least the threshold. Two predicted spans may hit the same gold
    span, and both count, as in the authors' code: so recall and F1 may pass 1.
    """
    ours, theirs = set(predicted), set(gold)
    best = [max((_iou(one, other) for other in theirs), default=0.0) for one in ours]
    return Counts(sum(iou >= threshold for iou in best), len(ours), len(theirs))


def micro(instances: Iterable[Counts]) -> Rates:
    """Return the rates of all instances thrown together."""
    every = list(instances)
    total = Counts(
        sum(one.hits for one in every),
        sum(one.predicted for one in every),
        sum(one.gold for one in every),
    )
    return Rates(total.precision, total.recall, total.f1)


def macro(instances: Iterable[Counts]) -> Rates:
    """Return the means of the instances' rates: ERASER's token F1, and that of exact spans.

    An instance with neither prediction nor gold does not count; where there is no other, the rates are 0.
    """
    every = [one for one in instances if one.predicted or one.gold]
    return Rates(
        _mean([one.precision for one in every]),
        _mean([one.recall for one in every]),
        _mean([one.f1 for one in every]),
    )


def macro_of_means(instances: Iterable[Counts]) -> Rates:
    """Return the mean precision, the mean recall, and the F1 of these two means: ERASER's IOU F1.

    Precision is averaged over the instances with a prediction, recall over those with gold; over none it is 0.
    """
    every = list(instances)
    precision = _mean([one.precision for one in every if one.predicted])
    recall = _mean([one.recall for one in every if one.gold])
    return Rates(precision, recall, f1(precision, recall))


def _places(spans: Iterable[Span]) -> set[int]:
    return {place for start, end in spans for place in range(start, end)}


def _common(predicted: Set[Hashable], gold: Set[Hashable]) -> Counts:
    return Counts(len(predicted & gold), len(predicted), len(gold))


def _iou(one: Span, other: Span) -> float:
    both = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return _ratio(both, one[1] - one[0] + other[1] - other[0] - both)


def _mean(values: Sequence[float]) -> float:
    return _ratio(sum(values), len(values))


"""ERASER's figures for what a model says with part of its input: averages over bins, entropy, divergence."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Averaging = Literal["code", "paper"]


def over_bins(falls: ArrayLike, averaging: Averaging = "code") -> Array:
    """Return the mean over the bins, the last axis, of the falls of a probability.

    The authors' code divides their sum by the number of bins; their paper also counts the empty bin, whose fall is 0,
    and divides by one more.
    """
    given = np.asarray(falls, dtype=np.float64)
    bins = given.shape[-1] + (averaging == "paper")
    return np.asarray(given.sum(-1) / bins)


def entropy(shares: ArrayLike) -> Array:
    """Return the entropy in nats of each row of shares, scaled to add up to 1."""
    p = _shares(shares)
    return np.asarray(-_times_log(p, p).sum(-1))


def kl(shares: ArrayLike, reference: ArrayLike) -> Array:
    """Return the Kullback-Leibler divergence in nats of shares from a reference, both scaled to add up to 1.

    It is infinite where something has a share of which the reference has none.
    """
    p, q = _shares(shares), _shares(reference)
    return np.asarray((_times_log(p, p) - _times_log(p, q)).sum(-1))


def _shares(given: ArrayLike) -> Array:
    given = np.asarray(given, dtype=np.float64)
    return np.asarray(given / given.sum(-1, keepdims=True))


def _times_log(p: Array, q: Array) -> Array:
    """Return p log q, which is 0 where p is 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(q)
    return np.asarray(p * np.where(p > 0, logs, 0.0))


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
