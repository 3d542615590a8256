"""What a model gives before it is read: where relevance starts from.

A reading is whence's, not the model's, and no tape follows it. What a target gives to each of the model's own outputs
is its slope there: one at a token's logit, if that is what is explained.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor

from whence.capture.readout import read
from whence.capture.target import Targets
from whence.data import Batch


@dataclass(frozen=True, eq=False)
class Head:
    """One of the model's own outputs."""

    value: Tensor  # (batch, ...), without its graph
    number: int | None  # on the tape; None where PyTorch does not show what it came out of


def slopes(heads: Mapping[str, Head], batch: Batch, targets: Targets) -> dict[str, Tensor]:
    """Return the derivative of the explained scalar by each of the model's outputs, in float32 at least."""
    with torch.enable_grad():
        wide = {name: _leaf(head.value) for name, head in heads.items()}
        if batch.items and batch.items[0].reading is not None:
            logits = read(SimpleNamespace(**wide), batch, "the model")
        else:
            logits = wide["logits"]
        value = targets.value(logits).sum()
        found = torch.autograd.grad(value, list(wide.values()), allow_unused=True)
    pairs = zip(wide.items(), found, strict=True)
    return {name: torch.zeros_like(one) if part is None else part for (name, one), part in pairs}


def _leaf(value: Tensor) -> Tensor:
    wide = value.detach().to(torch.promote_types(value.dtype, torch.float32))
    return wide.clone().requires_grad_()
