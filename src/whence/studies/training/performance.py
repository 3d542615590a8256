"""How well a model does: accuracy, F1, the area under the ROC curve, and what is taken for what."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from whence.capture.forward import bare
from whence.capture.memory.fitting import fitting_batches
from whence.data import Encoded, Policy, collate
from whence.stats.rank import ranks

_CELLS = 16384  # tokens of a batch: enough to be quick, little enough for long texts


@dataclass(frozen=True, slots=True)
class Row:
    """One example to train or judge on: an encoded input and the index of its true label."""

    item: Encoded
    label: int


@dataclass(frozen=True, slots=True)
class Performance:
    """Figures over n examples. `roc_auc` is None with more than two labels, or where only one of two occurs."""

    accuracy: float
    f1: float  # two labels: of the second; more: the mean over all that occur
    roc_auc: float | None
    n: int
    confusion: tuple[tuple[int, ...], ...]  # true label x predicted label

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {**asdict(self), "confusion": [list(row) for row in self.confusion]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Performance":
        """Take the figures from plain data."""
        confusion = tuple(tuple(row) for row in given["confusion"])
        return cls(**{**given, "confusion": confusion})


def judged(
    model: Any, rows: Sequence[Row], *, pad_id: int | None, batch_size: int = 64
) -> Performance:
    """Run the model on `rows` and compare with their labels."""
    logits = logits_of(model, [row.item for row in rows], pad_id=pad_id, batch_size=batch_size)
    return performance(logits, [row.label for row in rows])


def logits_of(
    model: Any, items: Sequence[Encoded], *, pad_id: int | None, batch_size: int = 64
) -> np.ndarray[Any, Any]:
    """Run the model on all items, (items, labels) in float64; it is left as it was found."""
    device = next(model.parameters()).device
    found: dict[int, Any] = {}
    with bare(model) as logits:
        work = fitting_batches(model, "answers", items, Policy(batch_size, _CELLS))
        for numbers in work:
            with work.trying(numbers):
                batch = collate([items[i] for i in numbers], pad_id=pad_id, device=device)
                given = logits(batch).to("cpu", torch.float64).numpy()
                found.update(zip(numbers, given, strict=True))
    return np.stack([found[i] for i in range(len(items))])


def performance(logits: ArrayLike, truth: Sequence[int]) -> Performance:
    """Compare logits, (n, labels), with the true labels. A tie between labels goes to the first."""
    scores, true = np.asarray(logits, dtype=np.float64), np.asarray(truth, dtype=np.int64)
    n, labels = scores.shape
    confusion = np.zeros((labels, labels), dtype=np.int64)
    np.add.at(confusion, (true, scores.argmax(1)), 1)
    hits = confusion.diagonal()
    total = confusion.sum(0) + confusion.sum(1)  # true ones and predicted ones of each label
    each = 2 * hits / np.maximum(total, 1)
    return Performance(
        accuracy=float(hits.sum() / n),
        f1=float(each[1] if labels == 2 else each[total > 0].mean()),
        roc_auc=roc_auc(scores[:, 1] - scores[:, 0], true) if labels == 2 else None,
        n=n,
        confusion=tuple(tuple(int(count) for count in row) for row in confusion),
    )


def roc_auc(scores: ArrayLike, truth: ArrayLike) -> float | None:
    """Return how often a positive example scores higher than a negative one, ties counting half; None without both.

    By ranks (Mann & Whitney): (sum of the positive ones' ranks - P (P + 1) / 2) / (P N).
    """
    positive = np.asarray(truth) == 1
    yes, no = int(positive.sum()), int((~positive).sum())
    if not (yes and no):
        return None
    place = ranks(np.asarray(scores)[None])[0]
    return float((place[positive].sum() - yes * (yes + 1) / 2) / (yes * no))
