"""What a model predicts for every row of a data set, and how much the true label surprises it."""

from typing import Any

import numpy as np

from whence.core.errors import BadExamples
from whence.core.types import Prediction, Task
from whence.data.sets.examples import Example, Read, read
from whence.data.sets.labels import label_places
from whence.data.sets.pictures import Stored
from whence.explainer import Explainer
from whence.explainer.work import Progress
from whence.stats import FEWEST, proportion
from whence.survey.intake import Intake, places

_BITS = 1 / np.log(2)


def predictions(
    explainer: Explainer,
    examples: Any,
    *,
    limit: int | None = 1000,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Predict the first `limit` rows of a data set.

    `examples`: a file, the name of a data set, or a list, as `whence.data.sets.examples.read` takes. Texts that are
    too long are cut, and counted; what cannot be read is left out, and counted. Surprise is -log2 of the true
    label's probability; where the data have no labels of this model, the entropy of its prediction.
    `progress` is called with (rows done, rows in all).
    """
    explainer.loaded.require_labels()
    given = read(examples)
    intake = Intake(explainer, given.examples, places(given, limit, drawn=False), progress)
    truth, without = _truth(given, explainer.labels, explainer.loaded.task)
    rows: dict[int, dict[str, Any]] = {}
    for group in intake.groups():
        for number, said in zip(
            group.numbers, explainer.predict(group.given, truncate=True), strict=True
        ):
            rows[number] = _row(number, given.examples[number], said, truth, explainer)
    found = [rows[number] for number in sorted(rows)]
    judged = [row for row in found if row["right"] is not None]
    left = len(given) - len(intake.numbers)
    rest = (
        [f"Only the first {len(intake.numbers)} of {len(given)} rows were taken."] if left else []
    )
    return {
        "kind": "predicted",
        "model": explainer.loaded.name,
        "data": given.name,
        "rows": found,
        "given": len(given),
        "left_out": [*rest, *intake.left_out(), *without],
        "accuracy": _accuracy(judged),
        "confusion": _confusion(judged, explainer.labels) if judged else None,
        "labels": list(explainer.labels),
        "surprise": _meaning(bool(truth), explainer.loaded.task),
    }


def _truth(given: Read, labels: tuple[str, ...], task: Task) -> tuple[dict[str, int], list[str]]:
    """Return what the data's labels are among the model's, and a sentence where they are none of them."""
    said = [example.label for example in given.examples if example.label is not None]
    if task == "regression" or not said:
        return {}, []
    try:
        return label_places(said, labels), []
    except BadExamples as error:
        return {}, [f"The labels of the data are not used. {error}"]


def _row(
    number: int, example: Example, said: Prediction, truth: dict[str, int], explainer: Explainer
) -> dict[str, Any]:
    given = example.given
    text, pair = (given.name, None) if isinstance(given, Stored) else (*example.texts, None)[:2]
    task = explainer.loaded.task
    true = truth.get(example.label) if example.label is not None else None
    logits = np.array(said.logits)
    value = f"{said.logits[0]:.4g}" if task == "regression" else said.label
    return {
        "number": number,
        "text": text,
        "pair": pair,
        "label": example.label if true is None else explainer.labels[true],
        "predicted": value,
        "probability": said.probability,
        "surprise": _surprise(logits, true, bool(truth), task),
        "right": None if true is None else true == said.index,
    }


def _surprise(logits: Any, true: int | None, labelled: bool, task: Task) -> float | None:
    """Return bits, by way of the logits: a probability that rounds to 0 has a surprise all the same."""
    if task == "regression" or (labelled and true is None):
        return None
    yes = _log_share(logits, task)
    if true is not None:
        return float(-yes[true] * _BITS) + 0.0
    spread = -np.exp(yes) * yes
    if task == "multi_label":
        no = _log_share(-logits, task)
        spread = spread - np.exp(no) * no
    return float(spread.sum() * _BITS) + 0.0


def _log_share(logits: Any, task: Task) -> Any:
    if task == "multi_label":
        return -np.logaddexp(0, -logits)
    return logits - np.logaddexp.reduce(logits)


def _accuracy(judged: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not judged:
        return None
    n, right = len(judged), sum(row["right"] for row in judged)
    low, high = proportion(right, n) if n >= FEWEST else (None, None)
    return {"mean": right / n, "low": low, "high": high, "n": n}


def _confusion(judged: list[dict[str, Any]], labels: tuple[str, ...]) -> list[list[int]]:
    counts = np.zeros((len(labels), len(labels)), dtype=int)
    for row in judged:
        counts[labels.index(row["label"]), labels.index(row["predicted"])] += 1
    found: list[list[int]] = counts.tolist()
    return found


def _meaning(labelled: bool, task: Task) -> str:
    if task == "regression":
        return "The model predicts a number: nothing is said about surprise."
    if labelled:
        return (
            "Surprise is -log2 of the probability that the model gives to the true label: 0 bits where it was "
            "certain, 1 where it gave one half. A row without a label has none."
        )
    return (
        "The data have no labels of this model, so surprise is the entropy of its prediction in bits: 0 where it was "
        "certain."
    )
