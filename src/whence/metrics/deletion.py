"""Deletion and insertion: area under the probability as the highest tokens go, or come, first (Petsiuk et al. 2018)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._steps import build_even_counts, compute_area

_FACTS = {
    "kind": "faithfulness",
    "range": (0, 1),
    "cite": "Petsiuk, Das & Saenko 2018, RISE, arXiv:1806.07421",
    "cost": "1 forward for each step, 10 by default",
}


@metric(
    "deletion",
    direction="lower",
    null="rankings",
    **_FACTS,
    formula="area under p(y | x without the top share s of its tokens), s from 0 to 1",
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


@metric(
    "insertion",
    direction="higher",
    null="reversed",
    **_FACTS,
    formula="area under p(y | only the top share s of the tokens of x), s from 0 to 1",
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
