"""Flip: how much must go before the prediction changes (ERASER's code counts the same, as tokens to flip)."""

import numpy as np

from whence.metrics import Outcome, metric, ranked, unrankable, untestable
from whence.trial import Trial
from whence.trial.steps import most

# What is asked beyond the flip is at most this part of what was needed.
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
def flip(trial: Trial) -> Outcome:
    """Remove the highest tokens one by one until the predicted label changes: the share that had to go.

    A prediction that stays when all are gone counts as 1, like one that changes with the last of them.
    """
    if trial.task == "regression":
        return untestable(trial, "A regression predicts no label that could change.")
    if why := unrankable(trial):
        return untestable(trial, why)
    units, last, orders = len(trial.units), most(trial), trial.orders.tolist()
    (label,) = trial.removed.predicted([()])
    gone = np.full(len(orders), units)
    waiting = np.flatnonzero(~trial.flat)
    done = 0
    while len(waiting) and done < last:
        counts = range(done + 1, min(last, done + max(1, int(_OVERSHOOT * done))) + 1)
        holes = [orders[row][:count] for row in waiting for count in counts]
        flipped = (trial.removed.predicted(holes) != label).reshape(len(waiting), -1)
        found = flipped.any(1)
        gone[waiting[found]] = counts.start + flipped[found].argmax(1)
        waiting, done = waiting[~found], counts.stop - 1
    return ranked(trial, gone / units)
