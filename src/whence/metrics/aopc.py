"""AOPC, area over the perturbation curve: mean fall of the probability as the highest tokens are removed."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._steps import ATTCAT_STEPS, Counting, build_step_schedule


@metric(
    "aopc",
    kind="faithfulness",
    direction="higher",
    range=(-1, 1),
    null="rankings",
    presets={"attcat": {"steps": ATTCAT_STEPS, "counting": "attcat", "absolute": True}},
    cite="Samek et al. 2017, arXiv:1509.06321; Qiang et al. 2022, AttCAT (NeurIPS)",
    formula="mean over the steps k of p(y | x) - p(y | x without the top k tokens)",
    cost="1 forward for each step, 10 by default",
    misleads_when="the model has never seen text with holes; or a word works through another, as in `not good`: with "
    "the one gone, removing the other helps; or under the preset attcat, where a removal that makes the model surer "
    "counts as much in favour as one that makes it doubt",
)
def aopc(
    trial: Trial,
    *,
    steps: Annotated[int, Range(min=1)] = 10,
    counting: Counting = "units",
    absolute: bool = False,
) -> Steps[Values]:
    """Remove the highest tokens in steps, to the last, and take the mean fall of the target's probability.

    `counting="attcat"` counts as the authors of AttCAT do (whence.metrics._steps), and `absolute` takes the
    magnitude of each fall, as they do.
    """
    if why := find_ranking_obstacle(trial):
        return why
    plan = build_step_schedule(trial, steps, counting)
    if isinstance(plan, str):
        return plan
    gone, at = plan
    curves = yield trial.without_highest(gone)
    falls = trial.base - curves[:, 1:]
    values = (np.abs(falls) if absolute else falls).mean(1)
    return Outcome(values, at=at, curves=curves)
