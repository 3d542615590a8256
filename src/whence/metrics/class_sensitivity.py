"""Class sensitivity: is the explanation of another class a different one?"""

from whence.metrics import Outcome, metric, reasoned, unrankable, untestable
from whence.trial import OtherClass, Trial
from whence.trial.anew import alike


@metric(
    "class_sensitivity",
    kind="robustness",
    direction="lower",
    range=(-1, 1),
    null="shuffles",
    again=lambda stages, params: 1,
    cite="Sixt, Granz & Landgraf 2020, arXiv:1912.09818",
    formula="ρ(s for the class, s for the runner-up); if the runner-up was explained, s for the prediction",
    cost="the explanation made anew, once",
    misleads_when="scores say how much a token matters and not for which class: with two classes, what matters for "
    "one may well matter as much against the other",
)
def class_sensitivity(trial: Trial) -> Outcome:
    """Compare the rankings for two classes: an explanation of a decision should tell them apart."""
    if why := unrankable(trial):
        return untestable(trial, why)
    return reasoned(*alike(trial, OtherClass()))
