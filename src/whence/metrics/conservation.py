"""Conservation: relevance gained or lost at the worst layer, as a share, for methods that promise to keep it."""

from whence.metrics import Outcome, Trial, metric
from whence.metrics._steps import compute_axiom_errors


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
    return compute_axiom_errors(trial, "conservation", trial.slope)
