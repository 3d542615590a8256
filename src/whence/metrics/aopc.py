"""The area over the perturbation curve, as Qiang et al. 2022 (AttCAT) take it."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, metric, ranked, unrankable, untestable
from whence.trial import Trial
from whence.trial.protocol import ATTCAT_STEPS, Counting, counted
from whence.trial.steps import without_highest


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
) -> Outcome:
    """Remove the highest tokens in steps, to the last, and take the mean fall of the target's probability.

    `counting="attcat"` counts as the authors of AttCAT do (whence.trial.protocol), and `absolute` takes the
    magnitude of each fall, as they do.
    """
    if why := unrankable(trial):
        return untestable(trial, why)
    plan = counted(trial, steps, counting)
    if isinstance(plan, str):
        return untestable(trial, plan)
    curves = without_highest(trial, plan.gone)
    falls = trial.removed.base - curves[:, 1:]
    values = (np.abs(falls) if absolute else falls).mean(1)
    return ranked(trial, values, at=plan.at, curves=curves)
