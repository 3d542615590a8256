"""Infidelity: do the scores of removed tokens add up to what their removal does? (Yeh et al. 2019)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.core.seed import generator
from whence.data.coalitions import Stratum, presence, spread
from whence.metrics import Outcome, metric, reasoned, unrankable, untestable
from whence.trial import Trial
from whence.trial.steps import most

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
) -> Outcome:
    """Remove sets of tokens and compare the fall of the target's probability with the sum of their scores.

    Every size of a set, from one token to all, counts the same; there are all sets if they are no more than
    `samples`, else so many are drawn, the same for every explanation. Scores come in any unit: `normalise`
    first multiplies them by the β that fits best. It is not negative, as that would turn the claim round.
    """
    if why := unrankable(trial):
        return untestable(trial, why)
    units = len(trial.units)
    sizes = [Stratum(units, size, mass=1.0) for size in range(1, most(trial) + 1)]
    drawn = spread(sizes, samples, generator("infidelity", trial.seed, trial.item.key))
    sets = [one for one, _ in drawn]
    weights = np.array([weight for _, weight in drawn])
    weights /= weights.sum()
    falls = trial.removed.base - trial.removed.probability(sets)
    sums = trial.values @ (1 - presence(units, sets)).T
    if normalise:
        fit, size = (sums * falls) @ weights, (sums * sums) @ weights
        sums *= np.divide(fit, size, out=np.zeros_like(fit), where=size > 0).clip(min=0)[:, None]
    return reasoned(np.where(trial.flat, np.nan, (sums - falls) ** 2 @ weights), {}, _TIED)
