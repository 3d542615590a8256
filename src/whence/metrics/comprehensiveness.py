"""Comprehensiveness and sufficiency: the fall of the probability without the highest tokens, and with them alone.

DeYoung et al. 2020.
"""

from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Literal

import numpy as np

from whence.core.errors import BadParameter
from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._steps import count_units
from whence.stats.rationale import Averaging, mean_over_bins

_BINS = "0.01,0.05,0.1,0.2,0.5"  # the shares of the authors
_FACTS = {
    "kind": "faithfulness",
    "range": (-1, 1),
    "cite": "DeYoung et al. 2020, ERASER, arXiv:1911.03429",
    "cost": "1 forward for each share",
}


@metric(
    "comprehensiveness",
    direction="higher",
    null="rankings",
    **_FACTS,
    formula="mean over the shares k of p(y | x) - p(y | x without the top k of its tokens)",
    misleads_when="the text says a thing twice, so that what is left still carries the label; or the model has never "
    "seen text with holes, and falls out of surprise; or a word works through another, as in `not good`: with the "
    "one gone, removing the other helps",
)
def comprehensiveness(
    trial: Trial,
    *,
    bins: str = _BINS,
    averaging: Averaging = "code",
) -> Steps[Values]:
    """Remove the highest share of the tokens and measure the fall of the target's probability.

    A share of the tokens is rounded up. `averaging="paper"` also counts the share 0, where nothing falls, as the
    paper's formula does and the authors' code does not.
    """
    if why := find_ranking_obstacle(trial):
        return why
    shares = _parse_shares("comprehensiveness", bins)
    units = len(trial.units)
    curves = yield trial.without_highest([0, *(count_units(share, units) for share in shares)])
    falls = trial.base - curves[:, 1:]
    at = np.array([0, *map(float, shares)])
    return Outcome(mean_over_bins(falls, averaging), at=at, curves=curves)


@metric(
    "sufficiency",
    direction="lower",
    null="reversed",
    **_FACTS,
    formula="mean over the shares k of p(y | x) - p(y | only the top k of the tokens of x)",
    misleads_when="the model gives the label to nearly empty text as well, so that anything suffices; or a few words "
    "out of their sentence mean something else",
)
def sufficiency(
    trial: Trial,
    *,
    bins: str = _BINS,
    averaging: Averaging = "code",
    rounding: Literal["up", "down"] = "up",
) -> Steps[Values]:
    """Keep only the highest share of the tokens and measure the fall of the target's probability.

    A share of the tokens is rounded up; special tokens stay besides. `averaging="paper"` divides by one share more,
    as the paper's formula does and the authors' code does not. Rounded down, what is missing is rounded up as
    deletion does it, and both ask the model the same questions.
    """
    if why := find_ranking_obstacle(trial):
        return why
    shares = _parse_shares("sufficiency", bins)
    units = len(trial.units)
    if rounding == "up":
        missing = [units - count_units(share, units) for share in shares]
    else:
        missing = [count_units(1 - share, units) for share in shares]
    curves = yield trial.without_lowest([*missing, 0])
    falls = trial.base - curves[:, :-1]
    at = np.array([*map(float, shares), 1])
    return Outcome(mean_over_bins(falls, averaging), at=at, curves=curves)


def _parse_shares(owner: str, bins: str) -> list[Decimal]:
    """Parse the shares in a metric's `bins`, as exact decimals."""
    try:
        shares = [Decimal(part.strip()) for part in bins.split(",")]
        fits = all(0 <= share <= 1 for share in shares)
    except InvalidOperation:  # not a number, or the Decimal "NaN", which has no order
        fits = False
    if not fits or any(late <= early for early, late in pairwise(shares)):
        raise BadParameter(
            f"The 'bins' parameter of {owner} must be rising shares from 0 to 1, like '0.01,0.05,0.1,0.2,0.5'. "
            f"Got {bins!r}."
        )
    return shares
