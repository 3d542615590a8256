"""Kendall's tau_b of the scores with the leave-one-out falls of the probability (Jain & Wallace 2019)."""

import numpy as np

from whence.metrics import (
    ALL_EQUAL,
    Steps,
    Trial,
    Values,
    build_outcome,
    find_ranking_obstacle,
    metric,
)
from whence.stats.rank import kendall

_NOTHING_FALLS = (
    "Removing any one token changes the model's answer by as much: there is nothing to agree with."
)


@metric(
    "loo_correlation",
    kind="faithfulness",
    direction="higher",
    range=(-1, 1),
    null="shuffles",  # τ_b spreads more where scores tie, so the null must tie as often
    cite="Jain & Wallace 2019, arXiv:1902.10186",
    formula="τ_b between s_j and p(y | x) - p(y | x without j); its magnitude, if no score can be negative",
    cost="n forwards for n tokens, whatever the number of explanations",
    misleads_when="two tokens say the same and each can be spared, so that leave-one-out itself misses them; in a "
    "long text, where most tokens change next to nothing and their order is noise",
)
def loo_correlation(trial: Trial) -> Steps[Values]:
    """Compare the ranking of the tokens with that of the falls when each of them is removed alone.

    Like with like: signed scores are held against signed falls, scores that cannot be negative against how much the
    target's probability moves, up or down.
    """
    if why := find_ranking_obstacle(trial):
        return why
    if trial.flat.all():
        return ALL_EQUAL
    falls = yield trial.without_each()
    likes = np.where(np.array(trial.signed)[:, None], falls, np.abs(falls))
    flat = {int(row): ALL_EQUAL for row in np.flatnonzero(trial.flat)}
    return build_outcome(kendall(trial.values, likes), flat, _NOTHING_FALLS)
