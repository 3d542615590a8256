"""Conservation: relevance gained or lost at the worst layer, as a share, for methods that promise to keep it."""

import numpy as np

from whence.metrics import NO_PROMISE, NOTHING_PROMISED, Outcome, Trial, build_outcome, metric
from whence.metrics._trial import compute_promised_total

_NAME = "conservation"  # the axiom of the tokens; those of layers are "conservation.LAYER"


@metric(
    "conservation",
    kind="sanity",
    direction="lower",
    range=(0, float("inf")),
    null=1.0,
    cite="Bach et al. 2015, doi:10.1371/journal.pone.0130140",
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
    values = np.full(len(trial.names), np.nan)
    why_not = {}
    for row, axioms in enumerate(trial.axioms):
        missed = [value for name, value in axioms.items() if name.partition(".")[0] == _NAME]
        if not missed:
            continue
        total = (
            compute_promised_total(trial, row, axioms[_NAME]) if _NAME in axioms else trial.slope
        )
        if total:
            values[row] = max(abs(residual / total) for residual in missed)
        else:
            why_not[row] = NOTHING_PROMISED
    return build_outcome(values, why_not, NO_PROMISE)
