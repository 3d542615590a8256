"""Token F1: does the explanation point at what people point at (DeYoung et al. 2020)?"""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, metric, ranked, untestable
from whence.stats import runs, tokens
from whence.trial import Trial
from whence.trial.rationale import chosen, unmarked


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
def token_f1(trial: Trial, *, top: Annotated[float | None, Range(0, 1)] = None) -> Outcome:
    """Take the highest tokens for the explanation's choice, and compare them with those that people marked.

    `top` is the share of tokens that are chosen, rounded up; without it as many as people marked, and then precision,
    recall and F1 are one number. Over a data set it is the mean, ERASER's macro F1.
    """
    if why := unmarked(trial):
        return untestable(trial, why)
    gold = runs(trial.marked or ())
    counts = [tokens(runs(row), gold) for row in chosen(trial, top)]
    return ranked(
        trial,
        np.array([one.f1 for one in counts]),
        parts={
            "precision": np.array([one.precision for one in counts]),
            "recall": np.array([one.recall for one in counts]),
        },
    )
