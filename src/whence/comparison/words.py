"""Whether two models lean on the same words, by one method of explanation."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whence.core.errors import WhenceError
from whence.core.types import Prediction
from whence.explainer import Explainer, Explanation
from whence.explainer.work import unnamed
from whence.stats import kendall, top_k_overlap

Array = np.ndarray[Any, np.dtype[np.float64]]

TOP = 5
_AT_ONCE = 64  # inputs between two reports of progress


def why_not(base: Explainer, tuned: Explainer) -> str | None:
    """Say why attributions cannot be compared, if they cannot."""
    without = [one.loaded.name for one in (base, tuned) if not one.loaded.classifies]
    if without:
        both = len(without) == 2
        named = " and ".join(map(repr, dict.fromkeys(without)))
        have, predict = ("have", "predict") if both else ("has", "predicts")
        return (
            f"{named} {have} no classification head and {predict} nothing that could be explained."
        )
    if base.labels != tuned.labels:
        return (
            f"The models have different labels ({listed(base.labels)}; {listed(tuned.labels)}): there is no output "
            "that both could be asked about."
        )
    if base.loaded.task != tuned.loaded.task:
        return "The models have different tasks: what they predict means different things."
    return None


def listed(labels: Sequence[str]) -> str:
    """Name labels, the first of many."""
    shown = ", ".join(labels[:4])
    return shown if len(labels) <= 4 else f"{shown} and {len(labels) - 4} more"


class Agreement:
    """For each input: tau-b, the overlap of the top words, and what random rankings of so many words overlap by."""

    def __init__(self, inputs: int) -> None:
        self.tau, self.top, self.chance = (np.full(inputs, np.nan) for _ in range(3))

    def add(self, number: int, one: Explanation, other: Explanation) -> None:
        """Compare the explanations that two models have for one input."""
        a, b = (np.asarray(side.word_scores, dtype=np.float64) for side in (one, other))
        self.tau[number], self.top[number] = agreement(a, b)
        if not np.isnan(self.top[number]):
            self.chance[number] = TOP / len(a)


def agreement(a: Array, b: Array) -> tuple[float, float]:
    """Return tau-b and the overlap of the strongest words; NaN where nothing is ranked, or all words are the top."""
    tau = float(kendall(a, b)[0])
    if len(a) <= TOP or np.isnan(tau):
        return tau, float("nan")
    # Ties at the edge would be drawn by lot; the same scores are the same explanation all the same.
    if np.array_equal(a, b):
        return tau, 1.0
    return tau, float(top_k_overlap(np.abs(a), np.abs(b), TOP)[0])


def agree(
    models: tuple[Explainer, Explainer],
    inputs: Sequence[Any],
    predictions: Sequence[Prediction],
    method: str,
    truncate: bool,
    done: Callable[[int], None],
) -> tuple[Agreement, str | None]:
    """Explain all inputs by both models, each for the class that the second one predicts.

    Returns the agreement, and a sentence where no input could be explained.
    """
    found, failures = Agreement(len(inputs)), list[str]()
    explained = 0
    for index in sorted({said.index for said in predictions}):
        numbers = [i for i, said in enumerate(predictions) if said.index == index]
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            texts = [inputs[i] for i in some]
            sides = [_explained(one, texts, method, index, truncate, failures) for one in models]
            for number, one, other in zip(some, *sides, strict=True):
                if one is not None and other is not None:
                    explained += 1
                    found.add(number, one, other)
            done(len(some))
    return found, None if explained else failures[0]


def _explained(
    explainer: Explainer,
    texts: Sequence[Any],
    method: str,
    index: int,
    truncate: bool,
    failures: list[str],
) -> list[Explanation | None]:
    """Explain some inputs; where that fails, one by one."""
    target = None if explainer.loaded.task == "regression" else index
    try:
        return list(explainer.explain(texts, method=method, target=target, truncate=truncate))
    except WhenceError as error:
        failures.append(str(unnamed(error)))
        if len(texts) == 1:
            return [None]
    return [
        one
        for text in texts
        for one in _explained(explainer, [text], method, index, truncate, failures)
    ]
