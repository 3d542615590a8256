"""Consistency, class sensitivity and randomisation: rank correlation of an explanation with its repeats.

Repeats are under dropout, padding and other inputs in the batch; of another class; or of random weights, stage by stage.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Steps, Trial, Values, build_outcome, find_ranking_obstacle, metric
from whence.metrics._requests import (
    Beside,
    Change,
    Dropout,
    Numbers,
    OtherClass,
    Padded,
    Randomised,
)
from whence.stats.intervals import mean_of_known
from whence.stats.rank import spearman

_FLAT_REPEAT = (
    "Made anew, it gives the same score to all tokens: there is no ranking to compare with."
)
_SAME_SIZE = "All scores are of the same size: there is no ranking to test."


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
    correlations, why_not = yield from _correlate_repeats(trial, changes)
    parts = {
        "dropout": mean_of_known(correlations[:-2]),
        "padding": correlations[-2],
        "batch": correlations[-1],
    }
    return build_outcome(np.fmin.reduce(list(parts.values())), why_not, parts=parts)


@metric(
    "class_sensitivity",
    kind="robustness",
    direction="lower",
    range=(-1, 1),
    null="shuffles",
    again=lambda stages, params: 1,
    cite="Sixt, Granz & Landgraf 2020, arXiv:1912.09818",
    formula="ρ(s for the class, s for the runner-up); if the runner-up was explained, s for the prediction",
    cost="the explanation made anew, once",
    misleads_when="scores say how much a token matters and not for which class: with two classes, what matters for "
    "one may well matter as much against the other",
)
def class_sensitivity(trial: Trial) -> Steps[Values]:
    """Compare the rankings for two classes: an explanation of a decision should tell them apart."""
    if why := find_ranking_obstacle(trial):
        return why
    correlations, why_not = yield from _correlate_repeats(trial, [OtherClass()])
    return build_outcome(correlations[0], why_not)


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
    correlations, why_not = yield from _correlate_repeats(trial, changes, sizes=True)
    curves = mean_of_known(correlations.reshape(seeds, stages, len(trial.names))).T
    at = np.arange(1, stages + 1) / stages
    return build_outcome(mean_of_known(curves, axis=1), why_not, _SAME_SIZE, at=at, curves=curves)


def _correlate_repeats(
    trial: Trial, changes: Sequence[Change], *, sizes: bool = False
) -> Steps[tuple[Numbers, dict[int, str]]]:
    """Return Spearman's correlation of each explanation with its repeat under each change, and reasons.

    The correlations are (changes, explanations). With `sizes`, signs do not count. An explanation with all scores
    equal is not repeated: it has NaN, and no reason here. Otherwise the reason is that of the first change.
    """
    own = np.abs(trial.values) if sizes else trial.values
    rows = np.flatnonzero((own != own[:, :1]).any(1)).tolist()
    correlations, why_not = np.empty((len(changes), len(own))), dict[int, str]()
    for rho, repeat in zip(correlations, (yield trial.repeats(changes, rows)), strict=True):
        other = trial.by_unit(repeat.scores)
        rho[:] = spearman(own, np.abs(other) if sizes else other)
        for row in rows:
            if np.isnan(rho[row]):
                why_not.setdefault(row, repeat.why_not.get(row, _FLAT_REPEAT))
    return correlations, why_not
