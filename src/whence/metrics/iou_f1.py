"""IOU F1: F1 of an explanation's spans against the human rationale's, by overlap (DeYoung et al. 2020)."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from whence.core.params import Range
from whence.metrics import Trial, Values, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import (
    build_f1_outcome,
    find_rationale_obstacle,
    select_highest_units,
)
from whence.stats.rationale import TokenSpan, count_overlapping_spans, f1, find_spans


def _aggregate(parts: Mapping[str, Numbers]) -> float:
    """Return ERASER's macro F1: that of the mean precision and mean recall, not the mean F1."""
    return f1(float(parts["precision"].mean()), float(parts["recall"].mean()))


def _find_spans(trial: Trial, units: Iterable[bool]) -> list[TokenSpan]:
    """Return the longest runs of neighbouring units; no run crosses from one text of a pair to the other."""
    marks: list[bool] = []
    segment = 0
    for places, yes in zip(trial.units, units, strict=True):
        if trial.item.tokens[places[0]].segment != segment:
            segment = trial.item.tokens[places[0]].segment
            marks.append(False)
        marks.append(yes)
    return find_spans(marks)


@metric(
    "iou_f1",
    kind="plausibility",
    direction="higher",
    range=(0, 1),
    null="rankings",
    takes="text",
    aggregate=_aggregate,
    cite="DeYoung et al. 2020 (ERASER), arXiv:1911.03429",
    formula="F1 = 2PR / (P + R),  P = hits / |chosen spans|,  R = hits / |marked spans|;  a hit is a chosen span "
    "with |chosen ∩ marked| / |chosen ∪ marked| ≥ threshold;  over a data set F1 of mean P and mean R",
    cost="no forward",
    misleads_when="an explanation picks the words that matter out of a passage that people marked as a whole; or the "
    "model decides by other words than people",
)
def iou_f1(
    trial: Trial,
    *,
    top: Annotated[float | None, Range(0, 1)] = None,
    threshold: Annotated[float, Range(0.5, 1)] = 0.5,
) -> Values:
    """Take runs of neighbours among the highest tokens for spans, and count those that people's spans cover well.

    `top` is the share of tokens that are chosen, rounded up; without it as many as people marked. Marked neighbours
    are one span, too. Under a threshold of a half, several spans could hit the same one, and F1 pass 1.
    """
    if why := find_rationale_obstacle(trial):
        return why
    gold = _find_spans(trial, trial.marked or ())
    return build_f1_outcome(
        count_overlapping_spans(_find_spans(trial, row), gold, threshold)
        for row in select_highest_units(trial, top)
    )
