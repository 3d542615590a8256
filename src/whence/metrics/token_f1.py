"""Token F1, IOU F1, AUPRC and precision at k: the highest tokens against the marked answer or human rationale."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from whence.core.params import Range
from whence.metrics import Outcome, Trial, Values, find_ranking_obstacle, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import count_units, find_rationale_obstacle
from whence.stats import rationale
from whence.stats.rationale import (
    RationaleCounts,
    TokenSpan,
    count_overlapping_spans,
    count_tokens,
    f1,
    find_spans,
)

_FACTS = {
    "kind": "plausibility",
    "direction": "higher",
    "range": (0, 1),
    "null": "rankings",
    "takes": "text",
    "cite": "DeYoung et al. 2020 (ERASER), arXiv:1911.03429",
    "cost": "no forward",
}


@metric(
    "token_f1",
    **_FACTS,
    formula="F1 = 2PR / (P + R),  P = |chosen ∩ marked| / |chosen|,  R = |chosen ∩ marked| / |marked|",
    misleads_when="the model decides by other words than people: then a true explanation scores low, and one that "
    "tells people what they expect scores high",
)
def token_f1(trial: Trial, *, top: Annotated[float | None, Range(0, 1)] = None) -> Values:
    """Take the highest tokens for the explanation's choice, and compare them with those that people marked.

    `top` is the share of tokens that are chosen, rounded up; without it as many as people marked, and then precision,
    recall and F1 are one number. Over a data set it is the mean, ERASER's macro F1.
    """
    if why := find_rationale_obstacle(trial):
        return why
    gold = find_spans(trial.marked or ())
    return _build_f1_outcome(
        count_tokens(find_spans(row), gold) for row in _select_highest_units(trial, top)
    )


def _aggregate(parts: Mapping[str, Numbers]) -> float:
    """Return ERASER's macro F1: that of the mean precision and mean recall, not the mean F1."""
    return f1(float(parts["precision"].mean()), float(parts["recall"].mean()))


def _find_spans(trial: Trial, units: Iterable[bool]) -> list[TokenSpan]:
    """Return the longest runs of neighbouring units; no run crosses from one text of a pair to the other."""
    marks: list[bool] = []
    segment = 0
    for places, yes in zip(trial.units, units, strict=True):
        if trial.item.tokens[places[0]].segment != segment:
            segment = trial.item.tokens[places[0]].segment
            marks.append(False)
        marks.append(yes)
    return find_spans(marks)


@metric(
    "iou_f1",
    aggregate=_aggregate,
    **_FACTS,
    formula="F1 = 2PR / (P + R),  P = hits / |chosen spans|,  R = hits / |marked spans|;  a hit is a chosen span "
    "with |chosen ∩ marked| / |chosen ∪ marked| ≥ threshold;  over a data set F1 of mean P and mean R",
    misleads_when="an explanation picks the words that matter out of a passage that people marked as a whole; or the "
    "model decides by other words than people",
)
def iou_f1(
    trial: Trial,
    *,
    top: Annotated[float | None, Range(0, 1)] = None,
    threshold: Annotated[float, Range(0.5, 1)] = 0.5,
) -> Values:
    """Take runs of neighbours among the highest tokens for spans, and count those that people's spans cover well.

    `top` is the share of tokens that are chosen, rounded up; without it as many as people marked. Marked neighbours
    are one span, too. Under a threshold of a half, several spans could hit the same one, and F1 pass 1.
    """
    if why := find_rationale_obstacle(trial):
        return why
    gold = _find_spans(trial, trial.marked or ())
    return _build_f1_outcome(
        count_overlapping_spans(_find_spans(trial, row), gold, threshold)
        for row in _select_highest_units(trial, top)
    )


@metric(
    "auprc",
    **_FACTS,
    formula="area under precision over recall of the marked tokens, as the score that a token must have falls",
    misleads_when="the model decides by other words than people; or much is marked: random explanations then get "
    "about the share that is",
)
def auprc(trial: Trial) -> Values:
    """Go down the ranking and draw the precision over the recall of what people marked: the area under it.

    Tokens with the same score are taken together. The area is cut in trapezoids, as the authors cut it.
    """
    if why := find_rationale_obstacle(trial):
        return why
    return rationale.auprc(np.array(trial.marked), trial.values)


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


def _select_highest_units(trial: Trial, top: float | None) -> NDArray[np.bool_]:
    """Return a mask of the units that each explanation ranks highest, (explanations, units).

    They are a share of `top` of all units, rounded up and at least one, or as many as people marked.
    """
    units = len(trial.units)
    count = (
        sum(trial.marked or ()) if top is None else max(1, count_units(Decimal(str(top)), units))
    )
    highest = np.zeros((len(trial.names), units), dtype=bool)
    np.put_along_axis(highest, trial.orders[:, :count], True, axis=1)
    return highest


def _build_f1_outcome(counts: Iterable[RationaleCounts]) -> Outcome:
    """Return the F1 of each explanation, with precision and recall as its parts."""
    values = np.array([(count.f1, count.precision, count.recall) for count in counts])
    return Outcome(values[:, 0], parts={"precision": values[:, 1], "recall": values[:, 2]})
