"""Log-odds: mean log-ratio of the target's probability as the highest tokens are removed (Qiang et al. 2022)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._steps import ATTCAT_STEPS, Counting, build_step_schedule

# A rounded probability can be 0, which has no logarithm: the floor is the smallest normal float32.
_LEAST = float(np.finfo(np.float32).tiny)


@metric(
    "log_odds",
    kind="faithfulness",
    direction="lower",
    range=(float("-inf"), float("inf")),
    null="rankings",
    presets={"attcat": {"steps": ATTCAT_STEPS, "counting": "attcat"}},
    cite="Shrikumar et al. 2017, arXiv:1704.02685; Qiang et al. 2022, AttCAT (NeurIPS)",
    formula="mean over the steps k of ln(p(y | x without the top k tokens) / p(y | x))",
    cost="1 forward for each step, 10 by default",
    misleads_when="one step drives the probability to nearly nothing: its logarithm outweighs all the others; it is "
    "a ratio of probabilities, not of odds, so a label that was nearly sure can only lose; or a word works through "
    "another, as in `not good`: with the one gone, removing the other helps",
)
def log_odds(
    trial: Trial,
    *,
    steps: Annotated[int, Range(min=1)] = 10,
    counting: Counting = "units",
) -> Steps[Values]:
    """Remove the highest tokens in steps, to the last: the mean logarithm of what is left of the probability.

    `counting="attcat"` counts as the authors of AttCAT do (whence.metrics._steps).
    """
    if trial.task == "regression":
        return "A regression has no probability to take the logarithm of."
    if trial.removed.target.against is not None:
        return "A difference of two labels is no probability to take the logarithm of."
    if why := find_ranking_obstacle(trial):
        return why
    plan = build_step_schedule(trial, steps, counting)
    if isinstance(plan, str):
        return plan
    gone, at = plan
    curves = yield trial.without_highest(gone)
    logs = np.log(np.maximum(curves, _LEAST))
    return Outcome((logs[:, 1:] - logs[:, :1]).mean(1), at=at, curves=curves)
