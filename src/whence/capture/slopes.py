"""The model as a function of its token embeddings: looked up, replaced, and differentiated."""

from collections.abc import Sequence
from contextlib import ExitStack
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from whence.capture.forward import run
from whence.capture.found import as_found
from whence.capture.lookups import never, no_way_back, placement
from whence.capture.recorder import Recorder
from whence.capture.target import Targets
from whence.core.errors import BadParameter
from whence.core.types import Of
from whence.data import Batch, Encoded, collate

Embedded = tuple[int, Tensor]  # an input's number, and vectors in the place of its embeddings

# How many rows of the table are looked up at a time when all of them are.
_ROWS = 4096


class _Swap(Recorder):
    """Puts other vectors in the place of the token embeddings, wherever the model looks them up."""

    def __init__(self, batch: Batch, vectors: Tensor) -> None:
        super().__init__(batch, cut=False)
        self.swapped = False
        self._vectors = vectors  # (batch, tokens, features)

    def _embed(self, module: torch.nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        if get_ident() != self._thread:
            return output
        found = super()._embed(module, args, output).detach()
        vectors = self._vectors.to(found.dtype)
        real, place = self.batch.real, placement(self.batch, args[0])
        if place == "later":
            vectors = torch.cat([found[:, :1], vectors[:, :-1]], dim=1)
            real = torch.cat([torch.zeros_like(real[:, :1]), real[:, 1:]], dim=1)
        else:
            self.swapped = True
        if place == "turned":
            real, vectors = real.T, vectors.transpose(0, 1)
        return torch.where(real[..., None], vectors, found)


def looked_up(model: Any, batch: Batch, ids: Tensor) -> Tensor:
    """Return what get_input_embeddings() gives for `ids`, in float32 at least: methods add up many of them."""
    with as_found(model) as stack:
        Recorder(batch, cut=False).watch_embeddings(model, stack)  # says it if that cannot be
        found: Tensor = model.get_input_embeddings()(ids).detach()
    return found.to(torch.promote_types(found.dtype, torch.float32))


def mean_embedding(model: Any, batch: Batch) -> Tensor:
    """Return the mean over the whole vocabulary, (features,)."""
    weight = getattr(model.get_input_embeddings(), "weight", None)
    if not isinstance(weight, Tensor):
        raise BadParameter(
            f"baseline='mean' needs a table of embeddings, and {type(model).__name__} has none. Use 'zero'."
        )
    every = torch.arange(len(weight), device=weight.device)
    # Through the module and not from the weight itself: some scale what they look up.
    parts = [looked_up(model, batch, ids).sum(0) for ids in torch.split(every, _ROWS)]
    return torch.stack(parts).sum(0) / len(weight)


def at_embeddings(
    model: Any,
    inputs: Sequence[Encoded],
    points: Sequence[Embedded],
    targets: Targets,
    *,
    pad_id: int | None,
    of: Of | None = None,
    slope: bool,
) -> tuple[Tensor, Tensor]:
    """Return the scalar at each of some points, (points,), and its slope, (points, longest, features).

    Ids, masks and positions stay those of the input; where its tokens are looked up, the model gets the point's
    vectors. The slope is zero if it is not asked for.
    """
    # All tensors are made in here: the caller may sit in a mode in which none can be differentiated.
    with as_found(model) as stack:
        first, device = points[0][1], points[0][1].device
        batch = collate([inputs[owner] for owner, _ in points], pad_id=pad_id, device=device)
        leaf = first.new_zeros((*batch.real.shape, first.shape[-1]))
        for row, (_, vectors) in enumerate(points):
            leaf[row, : len(vectors)] = vectors
        leaf.requires_grad_(slope)
        targets = targets.at(torch.tensor([owner for owner, _ in points], device=device))
        value = _value(model, batch, leaf, targets, of, stack)
        if not slope:
            return value.detach(), torch.zeros_like(leaf)
        grad: Tensor | None = None
        if value.requires_grad:
            (grad,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True)
        if grad is None:
            raise no_way_back()
        return value.detach(), grad


def _value(
    model: Any, batch: Batch, leaf: Tensor, targets: Targets, of: Of | None, stack: ExitStack
) -> Tensor:
    swap = _Swap(batch, leaf)
    swap.watch_embeddings(model, stack)
    with torch.set_grad_enabled(leaf.requires_grad):
        logits = run(model, batch)
    if not swap.swapped:
        raise never()
    return targets.value(logits, of)
