"""Class sensitivity: rank correlation of the explanations of two classes; lower is better."""

from whence.metrics import Steps, Trial, Values, build_outcome, find_ranking_obstacle, metric
from whence.metrics._requests import OtherClass
from whence.metrics._trial import correlate_repeats


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
def class_sensitivity(trial: Trial) -> Steps[Values]:
    """Compare the rankings for two classes: an explanation of a decision should tell them apart."""
    if why := find_ranking_obstacle(trial):
        return why
    correlations, why_not = yield from correlate_repeats(trial, [OtherClass()])
    return build_outcome(correlations[0], why_not)
