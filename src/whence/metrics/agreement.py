"""Four agreement metrics between explanations of one input: Kendall's tau_b, top-k overlap, Pearson, Spearman."""

from collections.abc import Callable
from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import ALL_EQUAL, Trial, Values, build_outcome, find_ranking_obstacle, metric
from whence.metrics._requests import Numbers
from whence.stats import rank
from whence.stats.intervals import mean_of_known

_NO_OTHER = "It is the only explanation: there is none to agree with."
_NONE_RANKS = "No other explanation ranks the tokens: there is none to agree with."
_FACTS = {
    "kind": "agreement",
    "direction": "higher",
    "null": "rankings",
    "cost": "no forwards",
}
_MISLEADS = "agreement is not truth: methods that err alike agree, and those that answer different questions need not"


@metric(
    "tau_b",
    range=(-1, 1),
    cite="Kendall 1945, doi:10.1093/biomet/33.3.239; between explanations as in Neely et al. 2021, arXiv:2105.03287",
    **_FACTS,
    formula="mean over the other explanations t of τ_b(s, t)",
    misleads_when=f"{_MISLEADS}; most pairs are of tokens that hardly matter, and all pairs count the same",
)
def tau_b(trial: Trial) -> Values:
    """Count the pairs of tokens that two explanations put in the same order, less those in opposite order."""
    return _compute_agreement(trial, rank.kendall)


@metric(
    "top_k_overlap",
    range=(0, 1),
    cite="Krishna et al. 2022, arXiv:2202.01602 (feature agreement)",
    **_FACTS,
    formula="mean over the other explanations t of |top k of s ∩ top k of t| / k",
    misleads_when=f"{_MISLEADS}; in a short text the top tokens overlap by chance, by k / n on average",
)
def top_k_overlap(trial: Trial, *, k: Annotated[int, Range(min=1)] = 5) -> Values:
    """Take the share of the k highest tokens that two explanations have in common; ties are shared out."""
    units = len(trial.units)
    if 1 < units <= k:
        return f"The input has {units} tokens: all of them are among the {k} highest."
    return _compute_agreement(trial, lambda rows, other: rank.top_k_overlap(rows, other, k))


@metric(
    "pearson",
    range=(-1, 1),
    cite="Pearson 1895, doi:10.1098/rspl.1895.0041",
    **_FACTS,
    formula="mean over the other explanations t of cov(s, t) / (σ_s σ_t)",
    misleads_when=f"{_MISLEADS}; one token with a very high score decides alone",
)
def pearson(trial: Trial) -> Values:
    """Correlate the scores of two explanations as they are; neither unit nor zero point counts."""
    return _compute_agreement(trial, rank.pearson)


@metric(
    "spearman",
    range=(-1, 1),
    cite="Spearman 1904, doi:10.2307/1412159; between explanations as in Krishna et al. 2022, arXiv:2202.01602",
    **_FACTS,
    formula="mean over the other explanations t of ρ(s, t), the correlation of the ranks",
    misleads_when=f"{_MISLEADS}; the order of tokens that hardly matter counts as much as that of the others",
)
def spearman(trial: Trial) -> Values:
    """Correlate the ranks of the tokens in two explanations."""
    return _compute_agreement(trial, rank.spearman)


def _compute_agreement(trial: Trial, measure: Callable[[Numbers, Numbers], Numbers]) -> Values:
    """Compare each pair of explanations; one with all scores equal agrees with none."""
    rows = len(trial.names)
    if why := find_ranking_obstacle(trial) or (_NO_OTHER if rows == 1 else None):
        return why
    pairs = np.full((rows, rows), np.nan)
    for row in range(rows - 1):
        later = slice(row + 1, None)
        pairs[row, later] = pairs[later, row] = measure(trial.values[later], trial.values[row])
    means = mean_of_known(pairs, axis=1)
    np.fill_diagonal(pairs, 1.0)
    tied = {int(row): ALL_EQUAL for row in np.flatnonzero(trial.flat)}
    return build_outcome(means, tied, _NONE_RANKS, pairs=pairs)
