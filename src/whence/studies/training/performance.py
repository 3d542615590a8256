"""Performance of a classifier: accuracy, F1, ROC-AUC and the confusion matrix."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from whence.data.batches import Batch, BatchRules, collate
from whence.data.tokens import EncodedInput
from whence.stats.rationale import roc_auc
from whence.tracing.forward import open_plain_forward
from whence.tracing.out_of_memory import build_retry_batches

Labels = NDArray[np.int64]

_CELLS = 16384  # tokens per batch: enough for speed, few enough for the memory of long texts


@dataclass(frozen=True, slots=True)
class LabelledInput:
    """An encoded input and the index of its true label, to train or test on."""

    item: EncodedInput
    label: int


@dataclass(frozen=True, slots=True)
class Performance:
    """Performance over n examples; `roc_auc` is None without exactly two labels that both occur."""

    accuracy: float
    f1: float  # two labels: of the second; more: the mean over all that occur
    roc_auc: float | None
    n: int
    confusion: tuple[tuple[int, ...], ...]  # true label x predicted label

    def __str__(self) -> str:
        area = "" if self.roc_auc is None else f", ROC-AUC {self.roc_auc:.3f}"
        return f"accuracy {self.accuracy:.3f}, F1 {self.f1:.3f}{area}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {**asdict(self), "confusion": [list(row) for row in self.confusion]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Performance":
        """Build the figures from a JSON object."""
        confusion = tuple(tuple(row) for row in data["confusion"])
        return cls(**{**data, "confusion": confusion})


def measure_performance(
    model: Any, rows: Sequence[LabelledInput], *, pad_id: int | None
) -> Performance:
    """Run the model on `rows` and compare its predictions with their labels."""
    logits = predict_logits(model, [row.item for row in rows], pad_id=pad_id)
    return compute_performance(logits, [row.label for row in rows])


def predict_logits(
    model: Any,
    items: Sequence[EncodedInput],
    *,
    pad_id: int | None,
    batch_size: int = 64,
    prepare: Callable[[Batch, Sequence[int]], None] | None = None,
) -> np.ndarray[Any, Any]:
    """Return the logits, (items, labels) in float64; `prepare` is called with each batch and its items' numbers."""
    device = next(model.parameters()).device
    by_number: dict[int, Any] = {}
    with open_plain_forward(model) as logits:
        work = build_retry_batches(model, "answers", items, BatchRules(batch_size, _CELLS))
        for numbers in work:
            with work.retry_halved(numbers):
                batch = collate([items[i] for i in numbers], pad_id=pad_id, device=device)
                if prepare is not None:
                    prepare(batch, numbers)
                values = logits(batch).to("cpu", torch.float64).numpy()
                by_number.update(zip(numbers, values, strict=True))
    return np.stack([by_number[i] for i in range(len(items))])


def compute_performance(logits: ArrayLike, truth: Sequence[int]) -> Performance:
    """Compare logits, (n, labels), with the true labels. A tie between labels goes to the first."""
    scores, true = np.asarray(logits, dtype=np.float64), np.asarray(truth, dtype=np.int64)
    n, labels = scores.shape
    (confusion,) = count_confusion(true, scores.argmax(1)[:, None], labels)
    area = roc_auc(true == 1, scores[:, 1] - scores[:, 0]) if labels == 2 else None
    return Performance(
        accuracy=float(confusion.trace() / n),
        f1=float(compute_f1(confusion, 1 if labels == 2 else None)),
        roc_auc=None if area is None else float(area[0]),
        n=n,
        confusion=tuple(map(tuple, confusion.tolist())),
    )


def count_confusion(truth: Labels, predicted: Labels, labels: int) -> Labels:
    """Return how often each label, (n,), was predicted as each, (n, draws): (draws, labels, labels)."""
    draws = predicted.shape[1]
    cells = truth[:, None] * labels + predicted + labels**2 * np.arange(draws)
    counts = np.bincount(cells.ravel(), minlength=draws * labels**2)
    return counts.reshape(draws, labels, labels)


def compute_f1(confusion: Labels, label: int | None = None) -> Any:
    """Return the F1 of one label, or the mean over the labels that occur, for (..., labels, labels)."""
    total = confusion.sum(-2) + confusion.sum(-1)  # predicted plus true examples of each label
    scores = 2 * confusion.diagonal(axis1=-2, axis2=-1) / np.maximum(total, 1)
    return scores.sum(-1) / (total > 0).sum(-1) if label is None else scores[..., label]
