"""Flip: share of tokens, highest first, whose removal changes the predicted label (ERASER: tokens to flip)."""

import numpy as np

from whence.metrics import Steps, Trial, Values, find_ranking_obstacle, metric

# Queries beyond the flip are at most this share of the queries needed.
_OVERSHOOT = 0.1


@metric(
    "flip",
    kind="faithfulness",
    direction="lower",
    range=(0, 1),
    null="rankings",
    cite="Nguyen 2018, doi:10.18653/v1/N18-1097; DeYoung et al. 2020, arXiv:1911.03429",
    formula="the smallest share s with argmax p(. | x without the top share s) ≠ argmax p(. | x); 1 if there is none",
    cost="1 forward for each token until the flip: at most n",
    misleads_when="another label than the predicted one is explained; or the model says the same to empty text, so "
    "that nothing flips it; or the prediction hung by a hair and any hole flips it",
)
def flip(trial: Trial) -> Steps[Values]:
    """Remove the highest tokens one by one until the predicted label changes: the share that had to go.

    A prediction that stays when all are gone counts as 1, like one that changes with the last of them.
    """
    if trial.task == "regression":
        return "A regression predicts no label that could change."
    if why := find_ranking_obstacle(trial):
        return why
    units, last, orders = len(trial.units), trial.removable, trial.orders.tolist()
    (label,) = yield trial.labels_without([()])
    gone = np.full(len(orders), units)
    waiting = np.flatnonzero(~trial.flat)
    tested = 0
    while len(waiting) and tested < last:
        counts = range(tested + 1, min(last, tested + max(1, int(_OVERSHOOT * tested))) + 1)
        masked = [orders[row][:count] for row in waiting for count in counts]
        labels = yield trial.labels_without(masked)
        flipped = (labels != label).reshape(len(waiting), -1)
        changed = flipped.any(1)
        gone[waiting[changed]] = counts.start + flipped[changed].argmax(1)
        waiting, tested = waiting[~changed], counts.stop - 1
    return gone / units
