"""Two models on the same examples: how far apart they look and predict, and how well each does."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.audit.distance import jsd, tvd
from whence.audit.figures import summary
from whence.audit.subject import Subject
from whence.core.seed import generator
from whence.stats import bootstrap

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

# A model has learnt a task if it comes at least so far from always saying the commonest label to what another does.
_LEARNT = 0.5
_ROUNDING = 1e-9
_DRAWS = 1000  # of the bootstrap of F1, which is no mean


def looks_apart(one: Subject, other: Subject) -> Numbers:
    """Return the Jensen-Shannon divergence of two models' attention, for each example."""
    return _apart(one.attention(), other.attention())


def looks_apart_by_chance(one: Subject, other: Subject) -> Numbers:
    """Return the same with the other's weights dealt out anew over the words of each example."""
    dealt = []
    for item, weights in zip(other.items, other.attention(), strict=True):
        order = generator("dealt out", one.seed, item.key).permutation(len(weights))
        dealt.append(weights[order])
    return _apart(one.attention(), dealt)


def reach(subject: Subject) -> Numbers:
    """Return how far apart any attention can be from the model's: all of it on the word that gets the least."""
    far = []
    for weights in subject.attention():
        least = np.zeros_like(weights)
        least[weights.argmin()] = 1
        far.append(least)
    return _apart(subject.attention(), far)


def too_short(reach: Numbers) -> str:
    """Say that nothing could have been found, whatever the model."""
    return (
        f"The texts are too short: no attention at all can be farther from the model's than {reach.mean():.3f} in "
        "the mean."
    )


def _apart(one: list[Numbers], other: list[Numbers]) -> Numbers:
    pairs = zip(one, other, strict=True)
    return np.array([float(jsd(torch.from_numpy(a), torch.from_numpy(b))) for a, b in pairs])


def says_apart(one: Subject, other: Subject) -> Numbers:
    """Return the total variation distance of two models' predictions, for each example."""
    said = torch.from_numpy(one.probabilities), torch.from_numpy(other.probabilities)
    return tvd(*said, one.loaded.task).numpy()


def standing(predicted: Labels, truth: Labels, labels: int, *key: str | int) -> dict[str, Any]:
    """Return accuracy and F1 (of two labels the second's, else the mean over all that occur) with intervals."""
    rows = np.column_stack([truth, predicted]).astype(np.float64)
    rows = rows[np.lexsort(rows.T[::-1])]  # in another order they are the same data

    found = bootstrap(
        rows, ("audit", "f1", *key), statistic=lambda some: _f1(some, labels), draws=_DRAWS
    )
    interval = None if found.low is None else [found.low, found.high]
    return {
        "accuracy": summary((predicted == truth).astype(np.float64), "accuracy", *key),
        "f1": {"mean": found.mean, "interval": interval, "n": found.n},
    }


def _f1(rows: Numbers, labels: int) -> float:
    """Return what `whence.training.performance` calls F1, of rows of true and predicted labels."""
    true, said = rows.astype(np.int64).T
    hits = np.bincount(true[true == said], minlength=labels)
    total = np.bincount(true, minlength=labels) + np.bincount(said, minlength=labels)
    each = 2 * hits / np.maximum(total, 1)
    return float(each[1] if labels == 2 else each[total > 0].mean())


def has_learnt(predicted: Labels, truth: Labels, reference: float = 1.0) -> bool:
    """Say whether predictions are at least half way from the commonest label to what is right `reference` times.

    Where the reference itself is no better than the commonest label there is nothing to learn from it.
    """
    commonest = np.bincount(truth).max() / len(truth)
    right = float((predicted == truth).mean())
    gain = reference - commonest
    return bool(gain > _ROUNDING and right - commonest >= _LEARNT * gain - _ROUNDING)
