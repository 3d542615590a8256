"""AOPC and log-odds: fall, or log-ratio, of the probability in the mean over steps that remove the highest tokens.

The 'attcat' counting follows the code of Qiang et al. 2022: shares of all tokens, special ones included,
inputs of fewer than 10 tokens skipped.
"""

from typing import Annotated, Literal

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, Steps, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import build_even_counts

Counting = Literal["units", "attcat"]
_ATTCAT_STEPS = 9
_ATTCAT_MIN_TOKENS = 10  # tokens; the authors' code skips shorter inputs
# A rounded probability can be 0, which has no logarithm: the floor is the smallest normal float32.
_LEAST = float(np.finfo(np.float32).tiny)


@metric(
    "aopc",
    kind="faithfulness",
    direction="higher",
    range=(-1, 1),
    null="rankings",
    presets={"attcat": {"steps": _ATTCAT_STEPS, "counting": "attcat", "absolute": True}},
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

    `counting="attcat"` counts as the authors of AttCAT do (whence.metrics.aopc), and `absolute` takes the
    magnitude of each fall, as they do.
    """
    found = yield from _remove_in_steps(trial, steps, counting)
    if isinstance(found, str):
        return found
    curves, at = found
    falls = trial.base - curves[:, 1:]
    values = (np.abs(falls) if absolute else falls).mean(1)
    return Outcome(values, at=at, curves=curves)


@metric(
    "log_odds",
    kind="faithfulness",
    direction="lower",
    range=(float("-inf"), float("inf")),
    null="rankings",
    presets={"attcat": {"steps": _ATTCAT_STEPS, "counting": "attcat"}},
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

    `counting="attcat"` counts as the authors of AttCAT do (whence.metrics.aopc).
    """
    if trial.task == "regression":
        return "A regression has no probability to take the logarithm of."
    if trial.removed.target.against is not None:
        return "A difference of two labels is no probability to take the logarithm of."
    found = yield from _remove_in_steps(trial, steps, counting)
    if isinstance(found, str):
        return found
    curves, at = found
    logs = np.log(np.maximum(curves, _LEAST))
    return Outcome((logs[:, 1:] - logs[:, :1]).mean(1), at=at, curves=curves)


def _remove_in_steps(
    trial: Trial, steps: int, counting: Counting
) -> Steps[tuple[Numbers, Numbers] | str]:
    """Return the target's probability at each step, (explanations, steps), and the shares removed, from 0 on.

    A sentence instead says why there are no steps.

    "units" counts removable units, in even steps to the last. "attcat" follows the authors' code: it
    counts shares of all tokens, special ones too, and then removes that number of non-special tokens, or all; and
    it never reaches the last place of the ranking of all tokens, so that the one there stays unless it is special.
    """
    if why := find_ranking_obstacle(trial):
        return why
    units = len(trial.units)
    if counting == "units":
        gone = [0, *build_even_counts(units, steps)]
        return (yield trial.without_highest(gone)), np.array(gone) / units
    inside = {place for unit in trial.units for place in unit}
    others = [place for place in range(len(trial.item)) if place not in inside]
    places = units + len(others)
    if places < _ATTCAT_MIN_TOKENS:
        return (
            f"The input has {places} tokens with special ones; the authors of AttCAT skip inputs of fewer than "
            f"{_ATTCAT_MIN_TOKENS}."
        )
    counts = np.unique(np.round(np.linspace(0, 1, steps + 1) * places).astype(np.int64))
    lowest_other = trial.scores[:, others].min(1, initial=np.inf)
    last_stays = trial.values.min(1) < lowest_other
    gone_by_row = np.minimum(counts, units - last_stays[:, None])
    return (yield trial.without_highest(gone_by_row)), counts / places
