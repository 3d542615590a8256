"""The model as a function of its token embeddings: looked up, replaced, and differentiated."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from whence.capture.anatomy.lookups import (
    Placement,
    brought_down,
    never,
    no_way_back,
    placements,
    require_one_table,
)
from whence.capture.attention.unwatched import unmasked
from whence.capture.backward import Unsuited
from whence.capture.forward import run
from whence.capture.found import as_found
from whence.capture.memory.rerun import Rerun
from whence.capture.memory.segments import Segments, cuts, leave_uncut
from whence.capture.recorder import Recorder, side_table
from whence.capture.target import Targets
from whence.core.errors import BadParameter
from whence.core.types import Of
from whence.data import Batch, Encoded, collate
from whence.data.vision.picture import as_pixels
from whence.models.table import token_table

Embedded = tuple[int, Tensor]  # an input's number, and vectors in the place of its embeddings

_EMBEDDINGS = frozenset({"embedding_grad"})

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
    checkpoint: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """Return the scalar at each of some points, (points,), and its slope at each, (tokens, features).

    Ids, masks and positions stay those of the input; where its tokens are looked up, the model gets the point's
    vectors. Without `slope` there are none. With `checkpoint` blocks are run again, not kept.
    """
    asked = partial(
        _at_embeddings,
        inputs=inputs,
        points=points,
        targets=targets,
        pad_id=pad_id,
        of=of,
        slope=slope,
    )
    return unmasked(model, partial(asked, model, checkpoint=checkpoint))


def _at_embeddings(
    model: Any,
    *,
    inputs: Sequence[Encoded],
    points: Sequence[Embedded],
    targets: Targets,
    pad_id: int | None,
    of: Of | None,
    slope: bool,
    checkpoint: bool,
) -> tuple[Tensor, list[Tensor]]:
    # All tensors are made in here: the caller may sit in a mode in which none can be differentiated.
    with as_found(model) as stack:
        stack.enter_context(torch.inference_mode(not slope))
        device = points[0][1].device
        batch = collate([inputs[owner] for owner, _ in points], pad_id=pad_id, device=device)
        leaf = batch.spread([vectors for _, vectors in points]).requires_grad_(slope)
        everyone, targets = (
            targets,
            targets.at(torch.tensor([owner for owner, _ in points], device=device)),
        )
        segments = Segments(Recorder(batch, cut=False), attends=False)
        with ExitStack() as cut:
            if slope and checkpoint and cuts(model):
                segments.watch(model, cut)
            logits = _logits(model, batch, leaf, stack)
        value, grad = targets.value(logits, of), None
        if value.requires_grad:
            lift = targets.lift(logits, of)
            lifted = value if lift is None else value * lift
            if segments.found:
                back = Rerun(model, batch, segments.found, [], [leaf], lifted, _EMBEDDINGS)
                try:
                    (grad,) = back.run(0, None)
                except Unsuited as error:
                    leave_uncut(model, error)
                    return at_embeddings(
                        model, inputs, points, everyone, pad_id=pad_id, of=of, slope=True
                    )
            else:
                (grad,) = torch.autograd.grad(lifted.sum(), leaf, allow_unused=True)
            grad = brought_down(grad, lift)
        if slope and grad is None:
            raise no_way_back()
    # Outside of the mode: who gets the value may want to differentiate with it.
    return value.detach().clone(), [] if grad is None else batch.parts(grad)


def _logits(model: Any, batch: Batch, leaf: Tensor, stack: ExitStack) -> Tensor:
    if batch.pictures:
        return run(model, _painted(batch, leaf))
    swap = _Swap(batch, leaf)
    swap.watch_embeddings(model, stack)
    logits = run(model, batch)
    require_one_table(batch, swap.lookups)
    missing = {"decoder", "same"} - swap.swapped if "decoder_input_ids" in batch.inputs else set()
    if missing or swap.swapped <= {"later"}:
        raise never()
    return logits


def _painted(batch: Batch, patches: Tensor) -> Batch:
    """Return the batch with other pixels, given patch by patch at their places."""
    picture, pixels = batch.items[0].picture, batch.inputs["pixel_values"]
    assert picture is not None
    own = patches[:, picture.lead : picture.lead + len(picture)]
    _, channels, height, width = pixels.shape
    painted = as_pixels(own, picture.grid, (channels, height, width))
    return replace(batch, inputs={"pixel_values": painted})
