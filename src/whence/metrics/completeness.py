"""Completeness: relative error of the scores' sum against the total that the method promises."""

import numpy as np

from whence.metrics import NO_PROMISE, NOTHING_PROMISED, Outcome, Trial, build_outcome, metric
from whence.metrics._trial import compute_promised_total


@metric(
    "completeness",
    kind="sanity",
    direction="lower",
    range=(0, float("inf")),
    null=1.0,
    cite="Sundararajan, Taly & Yan 2017, arXiv:1703.01365",
    formula="|Σ_j s_j - Δ| / |Δ|,  Δ what the scores should add up to: mostly y(x) - y(nothing)",
    cost="no forwards: the explanation came with its residual",
    misleads_when="Δ is close to 0, so that a small miss looks large; and scores that add up may still be given to "
    "the wrong tokens",
)
def completeness(trial: Trial) -> Outcome:
    """Take by how much the scores miss what they should add up to, in parts of that.

    Scores of zero miss all of it: 1. What they should add up to is not asked for again: it is their sum, less the
    residual that the explanation came with.
    """
    values = np.full(len(trial.names), np.nan)
    why_not = {}
    for row, axioms in enumerate(trial.axioms):
        if "completeness" not in axioms:
            continue
        residual = axioms["completeness"]
        if total := compute_promised_total(trial, row, residual):
            values[row] = abs(residual / total)
        else:
            why_not[row] = NOTHING_PROMISED
    return build_outcome(values, why_not, NO_PROMISE)
