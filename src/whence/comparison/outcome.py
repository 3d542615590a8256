"""What two models predict: how often the same, and how often what is right."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.comparison.summary import Facts, Summary
from whence.core.errors import BadExamples
from whence.core.types import Prediction
from whence.data.sets.examples import Example
from whence.data.sets.labels import label_places
from whence.explainer import Explainer

Array = np.ndarray[Any, np.dtype[np.float64]]
Said = Sequence[Prediction | None]


def outcomes(
    models: tuple[Explainer, Explainer],
    said: tuple[Said, Said],
    examples: Sequence[Example],
    summary: Summary,
) -> Facts | None:
    """Compare predictions with each other and with the true labels; None where neither model predicts anything."""
    tasks = [one.loaded.task for one in models]
    if not any(one.loaded.classifies for one in models):
        return None
    same_labels = models[0].labels == models[1].labels and tasks[0] == tasks[1]
    found: Facts = {"agreement": None, "without_agreement": None}
    if same_labels and tasks[0] != "regression":
        found["agreement"] = summary.mean(_same(*said))
    elif same_labels:
        found["without_agreement"] = "The models predict a number: agreement is counted of classes."
    else:
        found["without_agreement"] = _why_no_agreement(models)
    return {**found, **_accuracy(models, said, examples, summary)}


def _why_no_agreement(models: tuple[Explainer, Explainer]) -> str:
    for which, model in zip(("first", "second"), models, strict=True):
        if not model.loaded.classifies:
            return f"The {which} model has no classification head, and predicts nothing."
    return "The models do not have the same labels."


def _same(one: Said, other: Said) -> Array:
    pairs = zip(one, other, strict=True)
    return np.array(
        [float(a is not None and b is not None and a.index == b.index) for a, b in pairs]
    )


def _accuracy(
    models: tuple[Explainer, Explainer],
    said: tuple[Said, Said],
    examples: Sequence[Example],
    summary: Summary,
) -> Facts:
    right: list[Array | None] = []
    why = None
    for explainer, own in zip(models, said, strict=True):
        try:
            right.append(_right(explainer, own, examples))
        except BadExamples as error:
            right.append(None)
            why = str(error)
    one, other = right
    if one is None and other is None:
        return {"accuracy": None, "without_accuracy": why}
    return {
        "accuracy": {
            "a": None if one is None else summary.mean(one),
            "b": None if other is None else summary.mean(other),
            "change": None if one is None or other is None else summary.mean(other - one),
        },
        "without_accuracy": None,
    }


def _right(explainer: Explainer, said: Said, examples: Sequence[Example]) -> Array | None:
    """Return 1 where the prediction is the true label, NaN without one; None where the model has no classes."""
    if explainer.loaded.task != "single_label":
        return None
    labels = [example.label for example in examples]
    if all(one is None for one in labels):
        raise BadExamples("The examples have no labels.")
    places = label_places([one for one in labels if one is not None], explainer.labels)
    return np.array(
        [
            np.nan if true is None or own is None else float(own.index == places[true])
            for own, true in zip(said, labels, strict=True)
        ]
    )
