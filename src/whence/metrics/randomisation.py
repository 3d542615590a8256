"""Randomisation: rank correlation with repeats as weights become random, stage by stage (Adebayo et al. 2018)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import (
    Outcome,
    build_outcome,
    build_untestable_outcome,
    find_ranking_obstacle,
    metric,
)
from whence.metrics._trial import Randomised, Trial, compute_repeat_correlation
from whence.stats.intervals import mean_of_known

_NO_STAGE = "The model has no weights that could be replaced."
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
def randomisation(trial: Trial, *, seeds: Annotated[int, Range(min=1)] = 1) -> Outcome:
    """Replace the weights by random ones, from the output on down, and compare the rankings by size at each stage.

    The curve is the correlation after each stage, over the share of stages that are random. A stage at which the
    explanation cannot be made, or ranks nothing, is left out.
    """
    stages = len(trial.again.stages)
    if why := find_ranking_obstacle(trial) or (None if stages else _NO_STAGE):
        return build_untestable_outcome(trial, why)
    curves = np.empty((len(trial.names), stages))
    why_not: dict[int, str] = {}
    for stage in range(stages):
        # Sizes, because a random head flips all signs half of the time: a ranking that is merely upside
        # down would pass for a new one, and on average over draws an unchanged one for an unrelated one.
        repeats = [
            compute_repeat_correlation(trial, Randomised(stage, seed), sizes=True)
            for seed in trial.seeds(seeds)
        ]
        curves[:, stage] = mean_of_known(np.stack([values for values, _ in repeats]))
        for _, reasons in repeats:
            why_not = {**reasons, **why_not}
    at = np.arange(1, stages + 1) / stages
    return build_outcome(mean_of_known(curves, axis=1), why_not, _SAME_SIZE, at=at, curves=curves)
