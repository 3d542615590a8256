"""IOU F1: does the explanation point at the passages that people point at (DeYoung et al. 2020)?"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, metric, ranked, untestable
from whence.stats import Span, f1, overlapping, runs
from whence.trial import Trial
from whence.trial.rationale import chosen, unmarked
from whence.trial.removed import Numbers


def _aggregate(parts: Mapping[str, Numbers]) -> float:
    """ERASER's macro F1 is that of the mean precision and the mean recall, not the mean of the F1s."""
    return f1(float(parts["precision"].mean()), float(parts["recall"].mean()))


def _spans(trial: Trial, units: Iterable[bool]) -> list[Span]:
    """Return the longest runs of neighbouring units; they do not run on from one text of a pair to the other."""
    found: list[bool] = []
    segment = 0
    for places, yes in zip(trial.units, units, strict=True):
        if trial.item.tokens[places[0]].segment != segment:
            segment = trial.item.tokens[places[0]].segment
            found.append(False)
        found.append(yes)
    return runs(found)


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
) -> Outcome:
    """Take runs of neighbours among the highest tokens for spans, and count those that people's spans cover well.

    `top` is the share of tokens that are chosen, rounded up; without it as many as people marked. Marked neighbours
    are one span, too. Under a threshold of a half, several spans could hit the same one, and F1 pass 1.
    """
    if why := unmarked(trial):
        return untestable(trial, why)
    gold = _spans(trial, trial.marked or ())
    counts = [overlapping(_spans(trial, row), gold, threshold) for row in chosen(trial, top)]
    return ranked(
        trial,
        np.array([one.f1 for one in counts]),
        parts={
            "precision": np.array([one.precision for one in counts]),
            "recall": np.array([one.recall for one in counts]),
        },
    )
