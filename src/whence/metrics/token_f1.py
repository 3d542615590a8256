"""Token F1: F1 of the highest tokens against the human rationale (DeYoung et al. 2020)."""

from typing import Annotated

from whence.core.params import Range
from whence.metrics import Trial, Values, metric
from whence.metrics._steps import (
    build_f1_outcome,
    find_rationale_obstacle,
    select_highest_units,
)
from whence.stats.rationale import count_tokens, find_spans


@metric(
    "token_f1",
    kind="plausibility",
    direction="higher",
    range=(0, 1),
    null="rankings",
    takes="text",
    cite="DeYoung et al. 2020 (ERASER), arXiv:1911.03429",
    formula="F1 = 2PR / (P + R),  P = |chosen ∩ marked| / |chosen|,  R = |chosen ∩ marked| / |marked|",
    cost="no forward",
    misleads_when="the model decides by other words than people: then a true explanation scores low, and one that "
    "tells people what they expect scores high",
)
def token_f1(trial: Trial, *, top: Annotated[float | None, Range(0, 1)] = None) -> Values:
    """Take the highest tokens for the explanation's choice, and compare them with those that people marked.

    `top` is the share of tokens that are chosen, rounded up; without it as many as people marked, and then precision,
    recall and F1 are one number. Over a data set it is the mean, ERASER's macro F1.
    """
    if why := find_rationale_obstacle(trial):
        return why
    gold = find_spans(trial.marked or ())
    return build_f1_outcome(
        count_tokens(find_spans(row), gold) for row in select_highest_units(trial, top)
    )
