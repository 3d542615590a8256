"""AUPRC: does the explanation rank what people marked above the rest (DeYoung et al. 2020)?"""

import numpy as np

from whence import stats
from whence.metrics import Outcome, metric, ranked, untestable
from whence.trial import Trial
from whence.trial.rationale import unmarked


@metric(
    "auprc",
    kind="plausibility",
    direction="higher",
    range=(0, 1),
    null="rankings",
    takes="text",
    cite="DeYoung et al. 2020 (ERASER), arXiv:1911.03429",
    formula="area under precision over recall of the marked tokens, as the score that a token must have falls",
    cost="no forward",
    misleads_when="the model decides by other words than people; or much is marked: random explanations then get "
    "about the share that is",
)
def auprc(trial: Trial) -> Outcome:
    """Go down the ranking and draw the precision over the recall of what people marked: the area under it.

    Tokens with the same score are taken together. The area is cut in trapezoids, as the authors cut it.
    """
    if why := unmarked(trial):
        return untestable(trial, why)
    return ranked(trial, stats.auprc(np.array(trial.marked), trial.values))
