"""Completeness: relative error of the scores' sum against the total that the method promises."""

from whence.metrics import Outcome, Trial, metric
from whence.metrics._steps import compute_axiom_errors


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
    return compute_axiom_errors(trial, "completeness")
