"""Completeness and conservation: relative error of what a method promises that its scores add up to, or keep."""

import numpy as np

from whence.metrics import NO_PROMISE, NOTHING_PROMISED, Outcome, Trial, build_outcome, metric

_FACTS = {"kind": "sanity", "direction": "lower", "range": (0, float("inf")), "null": 1.0}


@metric(
    "completeness",
    cite="Sundararajan, Taly & Yan 2017, arXiv:1703.01365",
    **_FACTS,
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
    return _compute_errors(trial, "completeness")


@metric(
    "conservation",
    cite="Bach et al. 2015, doi:10.1371/journal.pone.0130140",
    **_FACTS,
    formula="max over the layers l, and the tokens, of |R_l - R_y| / |R_y|,  R_l what arrives, R_y what was given",
    cost="no forwards: the explanation came with its residuals",
    misleads_when="biases take their share by the method's design, or the explained logit is close to 0: what is "
    "missing then looks large; and relevance that is kept may still go to the wrong tokens",
)
def conservation(trial: Trial) -> Outcome:
    """Take by how much relevance grew or shrank on its way, at the worst layer, in parts of what was given.

    A method that follows the target's value down to the tokens says by how much its scores miss it: their sum, less
    that, is what was given. One that states layers only gave 1 to the target's logit, or to every logit its slope.
    """
    return _compute_errors(trial, "conservation", trial.slope)


def _compute_errors(trial: Trial, axiom: str, otherwise: float = 0.0) -> Outcome:
    """Return the largest residual of an axiom, and of those of its layers, as a share of what was promised.

    What was promised is the sum of the scores less the residual of the tokens, or `otherwise` where that is not known.
    """
    values = np.full(len(trial.names), np.nan)
    why_not = {}
    for row, (axioms, scores) in enumerate(zip(trial.axioms, trial.scores, strict=True)):
        # The axiom of the tokens is its name alone; those of layers are like "conservation.LAYER".
        missed = [value for name, value in axioms.items() if name.partition(".")[0] == axiom]
        total = otherwise
        if axiom in axioms:
            total = float(scores.sum()) - axioms[axiom]
            # Sums in float32 are good to about 1e-7 of the summed sizes; a total below 1e-6 of them counts as 0.
            total = total if abs(total) > 1e-6 * float(np.abs(scores).sum()) else 0.0
        if missed and total:
            values[row] = max(abs(residual / total) for residual in missed)
        elif missed:
            why_not[row] = NOTHING_PROMISED
    return build_outcome(values, why_not, NO_PROMISE)
