"""The model as a function of its token embeddings: looked up, replaced, and differentiated."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from whence.capture.forward import run
from whence.capture.found import as_found
from whence.capture.lookups import Placement, never, no_way_back, placements
from whence.capture.recorder import Recorder, side_table
from whence.capture.target import Targets
from whence.core.errors import BadParameter
from whence.core.types import Of
from whence.data import Batch, Encoded, collate
from whence.data.picture import as_pixels
from whence.models.table import token_table

Embedded = tuple[int, Tensor]  # an input's number, and vectors in the place of its embeddings

# How many rows of the table are looked up at a time when all of them are.
_ROWS = 4096


class _Swap(Recorder):
    """Puts other vectors in the place of the token embeddings, wherever the model looks them up."""

    def __init__(self, batch: Batch, vectors: Tensor) -> None:
        super().__init__(batch, cut=False)
        self.swapped: set[Placement] = set()
        self._vectors = vectors  # (batch, tokens, features)

    def _embed(self, module: torch.nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        if get_ident() != self._thread:
            return output
        found = super()._embed(module, args, output).detach()
        vectors = self._vectors.to(found.dtype)
        real, place = self.batch.real, placements(self.batch, self.lookups)[-1]
        self.swapped.add(place)
        sources = self.batch.inputs["input_ids"].shape[1]
        if place == "decoder":
            real, vectors = real[:, sources:], vectors[:, sources:]
        elif place != "turned":
            real, vectors = real[:, :sources], vectors[:, :sources]
        if place == "later":
            vectors = torch.cat([found[:, :1], vectors[:, :-1]], dim=1)
            real = torch.cat([torch.zeros_like(real[:, :1]), real[:, 1:]], dim=1)
        if place == "turned":
            real, vectors = real.T, vectors.transpose(0, 1)
        return torch.where(real[..., None], vectors, found)


def looked_up(model: Any, batch: Batch, ids: Tensor, *, decoder: bool = False) -> Tensor:
    """Return what get_input_embeddings() gives for `ids`, in float32 at least: methods add up many of them.

    A `decoder` may have a table of its own.
    """
    with as_found(model) as stack:
        Recorder(batch, cut=False).watch_embeddings(model, stack)  # says it if that cannot be
        found: Tensor = _table(model, decoder)(ids).detach()
    return found.to(torch.promote_types(found.dtype, torch.float32))


def _table(model: Any, decoder: bool) -> Any:
    own = side_table(model, "decoder" if decoder else "encoder")
    return token_table(model) if own is None else own


def mean_embedding(model: Any, batch: Batch, *, decoder: bool = False) -> Tensor:
    """Return the mean over the whole vocabulary, (features,)."""
    weight = getattr(_table(model, decoder), "weight", None)
    if not isinstance(weight, Tensor):
        raise BadParameter(
            f"baseline='mean' needs a table of embeddings, and {type(model).__name__} has none. Use 'zero'."
        )
    every = torch.arange(len(weight), device=weight.device)
    # Through the module and not from the weight itself: some scale what they look up.
    parts = [
        looked_up(model, batch, ids, decoder=decoder).sum(0) for ids in torch.split(every, _ROWS)
    ]
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
) -> tuple[Tensor, list[Tensor]]:
    """Return the scalar at each of some points, (points,), and its slope at each, (tokens, features).

    Ids, masks and positions stay those of the input; where its tokens are looked up, the model gets the point's
    vectors. The slope is zero if it is not asked for.
    """
    # All tensors are made in here: the caller may sit in a mode in which none can be differentiated.
    with as_found(model) as stack:
        first, device = points[0][1], points[0][1].device
        batch = collate([inputs[owner] for owner, _ in points], pad_id=pad_id, device=device)
        leaf = first.new_zeros((*batch.real.shape, first.shape[-1]))
        for row, (_, vectors) in enumerate(points):
            leaf[row, batch.own[row]] = vectors
        leaf.requires_grad_(slope)
        targets = targets.at(torch.tensor([owner for owner, _ in points], device=device))
        value = _value(model, batch, leaf, targets, of, stack)
        if not slope:
            return value.detach(), [torch.zeros_like(vectors) for _, vectors in points]
        grad: Tensor | None = None
        if value.requires_grad:
            (grad,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True)
        if grad is None:
            raise no_way_back()
        return value.detach(), [part[own] for part, own in zip(grad, batch.own, strict=True)]


def _value(
    model: Any, batch: Batch, leaf: Tensor, targets: Targets, of: Of | None, stack: ExitStack
) -> Tensor:
    if batch.pictures:
        with torch.set_grad_enabled(leaf.requires_grad):
            return targets.value(run(model, _painted(batch, leaf)), of)
    swap = _Swap(batch, leaf)
    swap.watch_embeddings(model, stack)
    with torch.set_grad_enabled(leaf.requires_grad):
        logits = run(model, batch)
    missing = {"decoder", "same"} - swap.swapped if "decoder_input_ids" in batch.inputs else set()
    if missing or swap.swapped <= {"later"}:
        raise never()
    return targets.value(logits, of)


def _painted(batch: Batch, patches: Tensor) -> Batch:
    """Return the batch with other pixels, given patch by patch at their places."""
    picture, pixels = batch.items[0].picture, batch.inputs["pixel_values"]
    assert picture is not None
    own = patches[:, picture.lead : picture.lead + len(picture)]
    _, channels, height, width = pixels.shape
    painted = as_pixels(own, picture.grid, (channels, height, width))
    return replace(batch, inputs={"pixel_values": painted})
