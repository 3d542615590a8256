"""Precision at k (or count, or recall) of the k highest tokens against the marked answer or rationale."""

from typing import Annotated, Literal

import numpy as np

from whence.core.params import Range
from whence.metrics import Trial, Values, find_ranking_obstacle, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import find_rationale_obstacle


@metric(
    "precision_at_k",
    kind="faithfulness",
    direction="higher",
    range=(0, float("inf")),
    null="rankings",
    takes="text",
    rationales=True,
    presets={"attcat": {"k": 20, "of": "count"}},
    cite="Qiang et al. 2022, AttCAT (NeurIPS), for answers in SQuAD",
    formula="|top k ∩ marked| / k; as count |top k ∩ marked|, as recall |top k ∩ marked| / |marked|",
    cost="no forward",
    misleads_when="the text has hardly more than k tokens, so that any ranking finds the answer; or the answer is "
    "shorter than k, which keeps the precision low; or the model decides by something else than the answer",
)
def precision_at_k(
    trial: Trial,
    *,
    k: Annotated[int, Range(min=1)] = 20,
    of: Literal["precision", "count", "recall"] = "precision",
) -> Values:
    """Count how many of the k highest tokens are marked: inside the answer, or called evidence.

    `of` makes of the number its share of the k ("precision"; of all tokens, if there are fewer), leaves it as it is
    ("count", as the authors of AttCAT report it), or makes it the share of the marked ones ("recall").
    """
    if why := find_ranking_obstacle(trial) or find_rationale_obstacle(trial):
        return why
    marked = np.array(trial.marked)
    top = trial.orders[:, :k]
    parts = {"precision": top.shape[1], "count": 1, "recall": int(marked.sum())}
    values: Numbers = marked[top].sum(1) / parts[of]
    return values
