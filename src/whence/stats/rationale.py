"""ERASER's measures: token and span F1 against human rationales, AUPRC, ROC-AUC, mean over bins, entropy.

An *instance* is one text with two sets of spans: the predicted ones and those that people marked, the gold.
Each instance becomes `RationaleCounts`, and the counts of a data set become `RationaleRates`. Areas under
curves take ties as scikit-learn does: tokens of one score enter a curve together.
"""

from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.stats.rank import rank_rows

Array = NDArray[np.float64]
Averaging = Literal["code", "paper"]


def mean_over_bins(falls: ArrayLike, averaging: Averaging = "code") -> Array:
    """Return the mean drop of a probability over the bins, the last axis.

    The authors' code divides the sum by the number of bins; their paper also counts the empty bin,
    whose drop is 0, and divides by one more.
    """
    drops = np.asarray(falls, dtype=np.float64)
    bins = drops.shape[-1] + (averaging == "paper")
    return np.asarray(drops.sum(-1) / bins)


def entropy(shares: ArrayLike) -> Array:
    """Return the entropy in nats of each row of shares, after scaling the row to sum 1."""
    from scipy.special import entr

    return np.asarray(entr(_normalise_shares(shares)).sum(-1))


def kl_divergence(shares: ArrayLike, reference: ArrayLike) -> Array:
    """Return the Kullback-Leibler divergence in nats of shares from a reference, both scaled to sum 1.

    It is infinite if an entry has a share and its reference is 0.
    """
    from scipy.special import rel_entr

    return np.asarray(rel_entr(_normalise_shares(shares), _normalise_shares(reference)).sum(-1))


def _normalise_shares(shares: ArrayLike) -> Array:
    shares = np.asarray(shares, dtype=np.float64)
    return np.asarray(shares / shares.sum(-1, keepdims=True))


def auprc(marked: ArrayLike, scores: ArrayLike) -> Array:
    """Return the area under the precision-recall curve by the trapezoid rule, ERASER's AUPRC.

    The curve starts at recall 0 and precision 1. If all tokens are marked the area is 1. If none is,
    recall counts as 1 from the first token on and the area is a half, as in the authors' code: that
    number has no meaning.
    """
    step, precision, before = _compute_curve(*_align_scores(marked, scores))
    area: Array = (step * (precision + before) / 2).sum(1)
    return area


def average_precision(marked: ArrayLike, scores: ArrayLike) -> Array | None:
    """Return the average precision over the steps of recall; None if all or no tokens are marked."""
    truth, rows = _align_scores(marked, scores)
    if truth.all() or not truth.any():
        return None
    step, precision, _ = _compute_curve(truth, rows)
    mean: Array = (step * precision).sum(1)
    return mean


def roc_auc(marked: ArrayLike, scores: ArrayLike) -> Array | None:
    """Return the probability that a marked token scores above an unmarked one, ties counted half.

    None if there is no such pair.
    """
    truth, rows = _align_scores(marked, scores)
    hits, rest = int(truth.sum()), int((~truth).sum())
    if not hits or not rest:
        return None
    # pairs with the marked token above
    above: Array = rank_rows(rows)[:, truth].sum(1) - hits * (hits + 1) / 2
    return above / (hits * rest)


def _align_scores(marked: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], Array]:
    truth, rows = (
        np.asarray(marked, dtype=bool),
        np.atleast_2d(np.asarray(scores, dtype=np.float64)),
    )
    if not len(truth) or rows.shape[1] != len(truth):
        raise ValueError(f"Rows of {rows.shape[1]} scores do not fit {len(truth)} tokens.")
    return truth, rows


def _compute_curve(truth: NDArray[np.bool_], rows: Array) -> tuple[Array, Array, Array]:
    """Return, by falling score, the step of recall, the precision, and the last point's precision.

    A token with the same score as the next one is no point of the curve: its step is 0.
    """
    order = np.argsort(-rows, axis=1)
    falling = np.take_along_axis(rows, order, 1)
    last = np.ones((len(rows), 1), dtype=bool)
    points = np.hstack([falling[:, 1:] != falling[:, :-1], last])
    hits = np.cumsum(truth[order], axis=1)
    place = np.arange(rows.shape[1])
    precision = hits / (place + 1)
    recall = hits / truth.sum() if truth.any() else np.ones(rows.shape)
    # The previous point, counted from 1; 0 is the start of the curve, at recall 0 and precision 1.
    before = np.maximum.accumulate(np.where(points, place + 1, 0), axis=1)
    before = np.hstack([0 * before[:, :1], before[:, :-1]])
    start = np.ones((len(rows), 1))
    reached = np.take_along_axis(np.hstack([0 * start, recall]), before, 1)
    held = np.take_along_axis(np.hstack([start, precision]), before, 1)
    return np.where(points, recall - reached, 0.0), precision, held


TokenSpan = tuple[int, int]  # the first position, and the one after the last


def _ratio(part: float, of: float) -> float:
    return part / of if of else 0.0


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; 0 if both are 0."""
    return _ratio(2 * precision * recall, precision + recall)


@dataclass(frozen=True)
class RationaleRates:
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class RationaleCounts:
    """The numbers of hits, predicted and gold tokens or spans in one instance.

    Precision is 0 without a prediction, and recall is 0 without gold.
    """

    hits: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """Hits over predicted tokens or spans."""
        return _ratio(self.hits, self.predicted)

    @property
    def recall(self) -> float:
        """Hits over gold tokens or spans."""
        return _ratio(self.hits, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return f1(self.precision, self.recall)


def find_spans(chosen: Iterable[bool]) -> list[TokenSpan]:
    """Return the maximal runs of chosen neighbours as spans."""
    marks = np.array([False, *chosen, False])
    edges = np.flatnonzero(marks[1:] != marks[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def count_tokens(predicted: Iterable[TokenSpan], gold: Iterable[TokenSpan]) -> RationaleCounts:
    """Count the tokens in predicted and gold spans; a token in several spans counts once."""
    return _count_common(_list_positions(predicted), _list_positions(gold))


def count_exact_spans(predicted: Iterable[TokenSpan], gold: Iterable[TokenSpan]) -> RationaleCounts:
    """Count predicted and gold spans; a hit is an exactly equal span."""
    return _count_common(set(predicted), set(gold))


def count_overlapping_spans(
    predicted: Iterable[TokenSpan], gold: Iterable[TokenSpan], threshold: float = 0.5
) -> RationaleCounts:
    """Count predicted and gold spans; a hit is a predicted span that overlaps a gold span enough.

    Enough is an intersection over union of at least the threshold. Two predicted spans may hit the
    same gold span, and both count, as in the authors' code: so recall and F1 may exceed 1.
    """
    ours, theirs = set(predicted), set(gold)
    best = [max((_iou(span, other) for other in theirs), default=0.0) for span in ours]
    return RationaleCounts(sum(iou >= threshold for iou in best), len(ours), len(theirs))


def micro_average(instances: Iterable[RationaleCounts]) -> RationaleRates:
    """Return the rates of the summed counts of all instances."""
    all_counts = list(instances)
    total = RationaleCounts(
        *(sum(getattr(one, name) for one in all_counts) for name in ("hits", "predicted", "gold"))
    )
    return RationaleRates(total.precision, total.recall, total.f1)


def macro_average(instances: Iterable[RationaleCounts]) -> RationaleRates:
    """Return the mean of the instances' rates: ERASER's token F1, and its F1 of exact spans.

    Instances with neither prediction nor gold do not count; without any others the rates are 0.
    """
    all_counts = [counts for counts in instances if counts.predicted or counts.gold]
    return RationaleRates(
        _mean([counts.precision for counts in all_counts]),
        _mean([counts.recall for counts in all_counts]),
        _mean([counts.f1 for counts in all_counts]),
    )


def macro_average_of_means(instances: Iterable[RationaleCounts]) -> RationaleRates:
    """Return the mean precision, the mean recall, and the F1 of these two means: ERASER's IOU F1.

    Precision is averaged over instances with a prediction, recall over those with gold; 0 if none.
    """
    all_counts = list(instances)
    precision = _mean([counts.precision for counts in all_counts if counts.predicted])
    recall = _mean([counts.recall for counts in all_counts if counts.gold])
    return RationaleRates(precision, recall, f1(precision, recall))


def _list_positions(spans: Iterable[TokenSpan]) -> set[int]:
    return {place for start, end in spans for place in range(start, end)}


def _count_common(predicted: Set[Hashable], gold: Set[Hashable]) -> RationaleCounts:
    return RationaleCounts(len(predicted & gold), len(predicted), len(gold))


def _iou(a: TokenSpan, b: TokenSpan) -> float:
    both = max(0, min(a[1], b[1]) - max(a[0], b[0]))
    return _ratio(both, a[1] - a[0] + b[1] - b[0] - both)


def _mean(values: Sequence[float]) -> float:
    return _ratio(sum(values), len(values))
