"""Infidelity: squared error of removed tokens' summed scores against the probability's fall (Yeh et al. 2019)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.core.seed import build_generator
from whence.data.removal import CoalitionStratum, build_presence_matrix, sample_coalitions
from whence.metrics import Steps, Trial, Values, build_outcome, find_ranking_obstacle, metric

_TIED = "All scores are equal: dealt out anew they are the same, so there is nothing to hold them against."


@metric(
    "infidelity",
    kind="faithfulness",
    direction="lower",
    range=(0, float("inf")),
    null="shuffles",
    cite="Yeh et al. 2019, arXiv:1901.09392",
    formula="mean over sets S of tokens of (β Σ_{j∈S} s_j - (p(y | x) - p(y | x without S)))², β ≥ 0 the best",
    cost="1 forward for each set, 64 by default, whatever the number of explanations",
    misleads_when="tokens matter together and not one by one, so that no sum can be right; or the answer hardly "
    "moves, and any small scores come close",
)
def infidelity(
    trial: Trial, *, samples: Annotated[int, Range(min=1)] = 64, normalise: bool = True
) -> Steps[Values]:
    """Remove sets of tokens and compare the fall of the target's probability with the sum of their scores.

    Every size of a set, from one token to all, counts the same; there are all sets if they are no more than
    `samples`, else so many are drawn, the same for every explanation. Scores come in any unit: `normalise`
    first multiplies them by the β that fits best. It is not negative, as that would turn the claim round.
    """
    if why := find_ranking_obstacle(trial):
        return why
    units = len(trial.units)
    sizes = [CoalitionStratum(units, size, mass=1.0) for size in range(1, trial.removable + 1)]
    drawn = sample_coalitions(
        sizes, samples, build_generator("infidelity", trial.seed, trial.item.key)
    )
    sets = [coalition for coalition, _ in drawn]
    weights = np.array([weight for _, weight in drawn])
    weights /= weights.sum()
    falls = trial.base - (yield trial.without(sets))
    sums = trial.values @ (1 - build_presence_matrix(units, sets)).T
    if normalise:
        fit, size = (sums * falls) @ weights, (sums * sums) @ weights
        sums *= np.divide(fit, size, out=np.zeros_like(fit), where=size > 0).clip(min=0)[:, None]
    return build_outcome(np.where(trial.flat, np.nan, (sums - falls) ** 2 @ weights), {}, _TIED)
