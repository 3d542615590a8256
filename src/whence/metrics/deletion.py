"""Deletion: area under the target's probability as the highest tokens are removed first (Petsiuk et al. 2018)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._steps import build_even_counts, compute_area


@metric(
    "deletion",
    kind="faithfulness",
    direction="lower",
    range=(0, 1),
    null="rankings",
    cite="Petsiuk, Das & Saenko 2018, RISE, arXiv:1806.07421",
    formula="area under p(y | x without the top share s of its tokens), s from 0 to 1",
    cost="1 forward for each step, 10 by default",
    misleads_when="the model gives the label to empty text as well, so that the curve cannot fall; or it has never "
    "seen text with holes; or a word works through another, as in `not good`: with the one gone, removing the other "
    "helps",
)
def deletion(trial: Trial, *, steps: Annotated[int, Range(min=1)] = 10) -> Steps[Values]:
    """Remove the highest tokens first and take the area under the target's probability.

    The tokens go in so many steps of like size, or one by one if there are no more of them.
    """
    if why := find_ranking_obstacle(trial):
        return why
    gone = [0, *build_even_counts(len(trial.units), steps)]
    at = np.array(gone) / len(trial.units)
    curves = yield trial.without_highest(gone)
    return Outcome(compute_area(curves, at), at=at, curves=curves)
