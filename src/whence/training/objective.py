"""What training makes small: cross entropy, weighted and summed as the recipe says."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from whence.capture.forward import run
from whence.core.errors import BadExamples, BadParameter
from whence.data import Batch
from whence.training.performance import Row
from whence.training.recipe import Recipe

# loss(model, batch, labels, numbers): the scalar to make small; `numbers` are the places of the examples in `rows`.
Loss = Callable[[Any, Batch, Tensor, Sequence[int]], Tensor]


def cross_entropy(rows: Sequence[Row], labels: int, recipe: Recipe) -> Loss:
    """Return Jain & Wallace's loss.

    Theirs is the binary cross entropy of one sigmoid, which is the cross entropy of two logits (-z/2, z/2). With
    `pos_weight`, an example of the second label counts N / N_second - 1 times.
    """
    weight = _weight(rows, labels) if recipe.pos_weight else None

    def loss(model: Any, batch: Batch, truth: Tensor, numbers: Sequence[int]) -> Tensor:
        logits = run(model, batch)
        each = functional.cross_entropy(logits, truth, reduction="none")
        if weight is not None:
            each = each * weight.to(each)[truth]
        return each.sum() if recipe.summed else each.mean()

    return loss


def _weight(rows: Sequence[Row], labels: int) -> Tensor:
    if labels != 2:
        raise BadParameter(
            f"pos_weight is for two labels, and the model has {labels}. Give a recipe with pos_weight=False."
        )
    second = sum(row.label for row in rows)
    if second in (0, len(rows)):
        raise BadExamples(
            f"All {len(rows)} examples have the same label: there is nothing to learn. Give examples of both."
        )
    return torch.tensor([1.0, len(rows) / second - 1], dtype=torch.float64)
