"""Sensitivity: largest change of the scores under embedding noise that keeps the prediction (Yeh et al. 2019)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import NOTHING_REMOVABLE, Steps, Trial, Values, build_outcome, metric
from whence.metrics._requests import Noise

_NOTHING_TO_MOVE = "All scores are 0: there is no length to compare a change with."


@metric(
    "sensitivity",
    kind="robustness",
    direction="lower",
    range=(0, float("inf")),
    null="shuffles",
    again=lambda stages, params: params["draws"],
    cite="Yeh et al. 2019, arXiv:1901.09392 (max-sensitivity)",
    formula="max over noise ε that keeps the prediction of ‖s(x + ε) - s(x)‖ / ‖s(x)‖,  ‖ε_j‖ = radius · ‖e_j‖",
    cost="the explanation made anew for each draw, 10 by default",
    misleads_when="the model itself is not steady there: its slopes change though its prediction does not; and the "
    "steadiest explanation of all is one that does not look at the model",
)
def sensitivity(
    trial: Trial,
    *,
    radius: Annotated[float, Range(min=0)] = 0.05,
    draws: Annotated[int, Range(min=1)] = 10,
) -> Steps[Values]:
    """Move every token's embedding a little, in random directions, and take the largest change of the scores.

    `radius` is a share of each embedding's own length. Draws that change the prediction are left out: there is
    something else to explain then, and the explanation should change.
    """
    if not trial.units:
        return NOTHING_REMOVABLE
    # Divided by the largest score, because the squares of very small scores underflow.
    largest = np.abs(trial.values).max(1, keepdims=True)
    rows = np.flatnonzero(largest)
    scale = np.where(largest > 0, largest, 1.0)
    own = trial.values / scale
    length = np.where(largest[:, 0] > 0, np.linalg.norm(own, axis=1), np.nan)
    (predicted,) = yield trial.labels_without([()])
    most = np.full(len(own), np.nan)
    why_not: dict[int, str] = {}
    noises = [Noise(radius, seed) for seed in trial.seeds(draws)]
    for repeat in (yield trial.repeats(noises, rows.tolist())):
        if repeat.predicted == predicted:
            with np.errstate(over="ignore"):  # tiny scores make infinite changes: see below
                moved = trial.by_unit(repeat.scores) / scale - own
                most = np.fmax(most, np.linalg.norm(moved, axis=1) / length)
            why_not = {**repeat.why_not, **why_not}
    for row in np.flatnonzero(np.isinf(most)).tolist():
        most[row], why_not[row] = np.nan, _NOTHING_TO_MOVE
    for row in rows[np.isnan(most[rows])].tolist():
        why_not.setdefault(
            row, f"Noise of this size ({radius:g}) changes the prediction every time."
        )
    return build_outcome(most, why_not, _NOTHING_TO_MOVE)
