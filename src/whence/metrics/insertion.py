"""Insertion: area under the target's probability as the highest tokens are added first (Petsiuk et al. 2018)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._steps import build_even_counts, compute_area


@metric(
    "insertion",
    kind="faithfulness",
    direction="higher",
    range=(0, 1),
    null="reversed",
    cite="Petsiuk, Das & Saenko 2018, RISE, arXiv:1806.07421",
    formula="area under p(y | only the top share s of the tokens of x), s from 0 to 1",
    cost="1 forward for each step, 10 by default",
    misleads_when="the model gives the label to empty text as well, so that the curve cannot rise; or a few words "
    "out of their sentence mean something else",
)
def insertion(trial: Trial, *, steps: Annotated[int, Range(min=1)] = 10) -> Steps[Values]:
    """Put the highest tokens back first into the bare input and take the area under the target's probability.

    The steps are those of deletion, backwards: what is still missing is counted as deletion counts what is gone.
    """
    if why := find_ranking_obstacle(trial):
        return why
    units = len(trial.units)
    missing = [*reversed(build_even_counts(units, steps)), 0]
    at = 1 - np.array(missing) / units
    curves = yield trial.without_lowest(missing)
    return Outcome(compute_area(curves, at), at=at, curves=curves)
