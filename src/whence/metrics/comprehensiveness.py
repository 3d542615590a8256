"""Comprehensiveness: the fall of the probability without the highest tokens (DeYoung et al. 2020)."""

from typing import Literal

import numpy as np

from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._steps import count_units, parse_shares
from whence.stats.rationale import mean_over_bins


@metric(
    "comprehensiveness",
    kind="faithfulness",
    direction="higher",
    range=(-1, 1),
    null="rankings",
    cite="DeYoung et al. 2020, ERASER, arXiv:1911.03429",
    formula="mean over the shares k of p(y | x) - p(y | x without the top k of its tokens)",
    cost="1 forward for each share",
    misleads_when="the text says a thing twice, so that what is left still carries the label; or the model has never "
    "seen text with holes, and falls out of surprise; or a word works through another, as in `not good`: with the "
    "one gone, removing the other helps",
)
def comprehensiveness(
    trial: Trial,
    *,
    bins: str = "0.01,0.05,0.1,0.2,0.5",
    averaging: Literal["code", "paper"] = "code",
) -> Steps[Values]:
    """Remove the highest share of the tokens and measure the fall of the target's probability.

    A share of the tokens is rounded up. `averaging="paper"` also counts the share 0, where nothing falls, as the
    paper's formula does and the authors' code does not.
    """
    if why := find_ranking_obstacle(trial):
        return why
    shares = parse_shares("comprehensiveness", bins)
    units = len(trial.units)
    curves = yield trial.without_highest([0, *(count_units(share, units) for share in shares)])
    falls = trial.base - curves[:, 1:]
    at = np.array([0, *map(float, shares)])
    return Outcome(mean_over_bins(falls, averaging), at=at, curves=curves)
