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
