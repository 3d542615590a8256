"""Consistency: lowest rank correlation with repeats under dropout, padding and other inputs in the batch."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Steps, Trial, Values, build_outcome, find_ranking_obstacle, metric
from whence.metrics._requests import Beside, Change, Dropout, Padded
from whence.metrics._trial import correlate_repeats
from whence.stats.intervals import mean_of_known


@metric(
    "consistency",
    kind="robustness",
    direction="higher",
    range=(-1, 1),
    null="shuffles",
    again=lambda stages, params: params["seeds"] + 2,
    cite="dropout at prediction time as in Gal & Ghahramani 2016, arXiv:1506.02142; padding and batch: whence",
    formula="min of: the mean over seeds of ρ(s, s with dropout), ρ(s, s of the padded input), ρ(s, s in a batch)",
    cost="the explanation made anew for each seed of dropout, 5 by default, and twice more",
    misleads_when="many tokens score next to nothing, and their order is noise; or the model was trained without "
    "dropout, and is another one with it",
)
def consistency(
    trial: Trial,
    *,
    seeds: Annotated[int, Range(min=1)] = 5,
    padding: Annotated[int, Range(min=1)] = 4,
) -> Steps[Values]:
    """Explain the same input with dropout as in training, padded, and in a batch: the lowest rank correlation.

    Dropout makes the model one of those that training went through, which answer alike, and is a matter of degree.
    Padding and batch are not: whence's own methods do not see them, and anything but 1, to rounding, is a fault of
    the model or of the method. What cannot be tried on a model is left out.
    """
    if why := find_ranking_obstacle(trial):
        return why
    dropped: list[Change] = [Dropout(seed) for seed in trial.seeds(seeds)]
    changes = [*dropped, Padded(padding), Beside()]
    correlations, why_not = yield from correlate_repeats(trial, changes)
    parts = {
        "dropout": mean_of_known(correlations[:-2]),
        "padding": correlations[-2],
        "batch": correlations[-1],
    }
    return build_outcome(np.fmin.reduce(list(parts.values())), why_not, parts=parts)
