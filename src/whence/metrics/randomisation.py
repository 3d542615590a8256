"""Randomisation: rank correlation with repeats as weights become random, stage by stage (Adebayo et al. 2018)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Steps, Trial, Values, build_outcome, find_ranking_obstacle, metric
from whence.metrics._requests import Randomised
from whence.metrics._trial import correlate_repeats
from whence.stats.intervals import mean_of_known

_SAME_SIZE = "All scores are of the same size: there is no ranking to test."


@metric(
    "randomisation",
    kind="sanity",
    direction="lower",
    range=(-1, 1),
    null="shuffles",
    aim="reach",  # an unrelated explanation is the best that can be reached
    again=lambda stages, params: stages * params["seeds"],
    cite="Adebayo et al. 2018, arXiv:1810.03292 (cascading randomisation)",
    formula="mean over the stages k, from the output, of ρ(|s|, |s with random weights in the stages 1 to k|)",
    cost="the explanation made anew for each stage (head, layers, embeddings) and seed",
    misleads_when="the input itself decides a part of the ranking, as rare words with long embeddings do where "
    "scores are multiplied by them; or the text is short, and rankings are alike by chance",
)
def randomisation(trial: Trial, *, seeds: Annotated[int, Range(min=1)] = 1) -> Steps[Values]:
    """Replace the weights by random ones, from the output on down, and compare the rankings by size at each stage.

    The curve is the correlation after each stage, over the share of stages that are random. A stage at which the
    explanation cannot be made, or ranks nothing, is left out.
    """
    if why := find_ranking_obstacle(trial):
        return why
    stages = len(trial.again.stages)
    if not stages:
        return "The model has no weights that could be replaced."
    # By seed, so that a stage draws the weights that it adds to the one before it only. Sizes, because a random
    # head flips all signs half of the time: a ranking that is merely upside down would pass for a new one, and on
    # average over draws an unchanged one for an unrelated one.
    changes = [Randomised(stage, seed) for seed in trial.seeds(seeds) for stage in range(stages)]
    correlations, why_not = yield from correlate_repeats(trial, changes, sizes=True)
    curves = mean_of_known(correlations.reshape(seeds, stages, len(trial.names))).T
    at = np.arange(1, stages + 1) / stages
    return build_outcome(mean_of_known(curves, axis=1), why_not, _SAME_SIZE, at=at, curves=curves)
