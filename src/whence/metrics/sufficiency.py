"""Sufficiency: the fall of the probability with only the highest tokens left (DeYoung et al. 2020)."""

from typing import Literal

import numpy as np

from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._steps import count_units, parse_shares
from whence.stats.rationale import mean_over_bins


@metric(
    "sufficiency",
    kind="faithfulness",
    direction="lower",
    range=(-1, 1),
    null="reversed",
    cite="DeYoung et al. 2020, ERASER, arXiv:1911.03429",
    formula="mean over the shares k of p(y | x) - p(y | only the top k of the tokens of x)",
    cost="1 forward for each share",
    misleads_when="the model gives the label to nearly empty text as well, so that anything suffices; or a few words "
    "out of their sentence mean something else",
)
def sufficiency(
    trial: Trial,
    *,
    bins: str = "0.01,0.05,0.1,0.2,0.5",
    averaging: Literal["code", "paper"] = "code",
    rounding: Literal["up", "down"] = "up",
) -> Steps[Values]:
    """Keep only the highest share of the tokens and measure the fall of the target's probability.

    A share of the tokens is rounded up; special tokens stay besides. `averaging="paper"` divides by one share more,
    as the paper's formula does and the authors' code does not. Rounded down, what is missing is rounded up as
    deletion does it, and both ask the model the same questions.
    """
    if why := find_ranking_obstacle(trial):
        return why
    shares = parse_shares("sufficiency", bins)
    units = len(trial.units)
    if rounding == "up":
        missing = [units - count_units(share, units) for share in shares]
    else:
        missing = [count_units(1 - share, units) for share in shares]
    curves = yield trial.without_lowest([*missing, 0])
    falls = trial.base - curves[:, :-1]
    at = np.array([*map(float, shares), 1])
    return Outcome(mean_over_bins(falls, averaging), at=at, curves=curves)
