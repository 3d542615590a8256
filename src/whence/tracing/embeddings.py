"""The model as a function of its token embeddings: look-up, replacement, values and gradients."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from whence.core.errors import BadParameter
from whence.core.types import OutputScale
from whence.data.batches import Batch
from whence.data.images import join_patches
from whence.models.facts import find_token_embeddings, get_facts
from whence.tracing.backward import UnsuitableModel
from whence.tracing.checkpointing import (
    BlockCheckpoints,
    mark_uncheckpointable,
)
from whence.tracing.forward import compute_logits, run_without_dense_masks
from whence.tracing.recorder import ForwardRecorder, find_side_embeddings
from whence.tracing.restore import restore_on_exit
from whence.tracing.structure import (
    LookupPlacement,
    build_no_gradient_error,
    build_no_lookup_error,
    check_one_embedding_table,
    find_placements,
    undo_gradient_scale,
)
from whence.tracing.target import ResolvedTargets

EmbeddedInput = tuple[int, Tensor]  # an input's number, and vectors that replace its embeddings


# Rows of the embedding table per look-up when the whole vocabulary is averaged.
_TABLE_ROWS = 4096


class _EmbeddingReplacer(ForwardRecorder):
    """A recorder that replaces the token embeddings by other vectors at every look-up."""

    def __init__(self, batch: Batch, vectors: Tensor) -> None:
        super().__init__(batch, cut=False)
        self.places: set[LookupPlacement] = set()
        self._vectors = vectors  # (batch, tokens, features)

    def _embed(self, module: torch.nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        if get_ident() != self._thread:
            return output
        embeddings = super()._embed(module, args, output).detach()
        vectors = self._vectors.to(embeddings.dtype)
        real, place = self.batch.real, find_placements(self.batch, self.lookups)[-1]
        self.places.add(place)
        sources = self.batch.inputs["input_ids"].shape[1]
        if place == "decoder":
            real, vectors = real[:, sources:], vectors[:, sources:]
        elif place != "turned":
            real, vectors = real[:, :sources], vectors[:, :sources]
        if place == "later":
            vectors = torch.cat([embeddings[:, :1], vectors[:, :-1]], dim=1)
            real = torch.cat([torch.zeros_like(real[:, :1]), real[:, 1:]], dim=1)
        if place == "turned":
            real, vectors = real.T, vectors.transpose(0, 1)
        return torch.where(real[..., None], vectors, embeddings)


def look_up_embeddings(model: Any, batch: Batch, ids: Tensor, *, decoder: bool = False) -> Tensor:
    """Return the token embeddings of `ids` in float32 at least, because methods sum many of them.

    With `decoder` the decoder's own table is used, if it has one.
    """
    with restore_on_exit(model) as stack:
        # Raises NotCapturable if the model does not name its embeddings.
        ForwardRecorder(batch, cut=False).watch_embeddings(model, stack)
        embeddings: Tensor = _find_embedding_table(model, decoder)(ids).detach()
    return embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))


def _find_embedding_table(model: Any, decoder: bool) -> Any:
    own = find_side_embeddings(model, "decoder" if decoder else "encoder")
    return find_token_embeddings(model) if own is None else own


def compute_mean_embedding(model: Any, batch: Batch, *, decoder: bool = False) -> Tensor:
    """Return the mean embedding over the whole vocabulary, (features,)."""
    weight = getattr(_find_embedding_table(model, decoder), "weight", None)
    if not isinstance(weight, Tensor):
        raise BadParameter(
            f"baseline='mean' needs a table of embeddings, and {type(model).__name__} has none. Use 'zero'."
        )
    vocabulary = torch.arange(len(weight), device=weight.device)
    # Through the module, not from the weight: some modules scale the embeddings.
    parts = [
        look_up_embeddings(model, batch, ids, decoder=decoder).sum(0)
        for ids in torch.split(vocabulary, _TABLE_ROWS)
    ]
    return torch.stack(parts).sum(0) / len(weight)


def evaluate_at_embeddings(
    model: Any,
    batch: Batch,
    vectors: Tensor,
    targets: ResolvedTargets,
    *,
    of: OutputScale | None = None,
    slope: bool,
    checkpoint: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the scalar at points, (points,), and with `slope` its gradients, (points, places, features).

    Ids, masks and positions stay those of the batch; the points' vectors (points, places, features) replace its
    token embeddings. With `checkpoint` blocks are run again in the backward pass instead of kept.
    """
    # Copied outside inference mode, because tensors that were made in it cannot be differentiated.
    with torch.inference_mode(False):
        inputs = {name: values.clone() for name, values in batch.inputs.items()}
        copied = replace(batch, inputs=inputs, real=batch.real.clone())
        points = vectors.detach().clone()
        own = targets.at(torch.arange(len(points), device=points.device))

    def evaluate(checkpoint: bool) -> tuple[Tensor, Tensor | None]:
        with restore_on_exit(model) as stack:
            stack.enter_context(torch.inference_mode(not slope))
            leaf, checkpoints = points.detach().requires_grad_(slope), BlockCheckpoints()
            with ExitStack() as hooks:
                if slope and checkpoint and get_facts(model).is_checkpointable:
                    checkpoints.watch(model, hooks)
                logits = _compute_logits(model, copied, leaf, stack)
            value, grad = own.value(logits, of), None
            if value.requires_grad:
                scale = own.compute_gradient_scale(logits, of)
                scaled_value = value if scale is None else value * scale
                with checkpoints.run_again():
                    (grad,) = torch.autograd.grad(scaled_value.sum(), leaf, allow_unused=True)
                if grad is not None and scale is not None:
                    grad = undo_gradient_scale(grad, scale)
        # Cloned outside inference mode, so that the caller may differentiate through the value.
        return value.detach().clone(), grad

    try:
        values, grad = run_without_dense_masks(model, partial(evaluate, checkpoint))
    except UnsuitableModel as error:
        mark_uncheckpointable(model, error)
        values, grad = run_without_dense_masks(model, partial(evaluate, False))
    if slope and grad is None:
        raise build_no_gradient_error()
    return values, points.new_empty(0) if grad is None else grad


def _compute_logits(model: Any, batch: Batch, leaf: Tensor, stack: ExitStack) -> Tensor:
    picture = batch.items[0].picture
    if picture is not None:  # patches stand at their token positions
        image_patches = leaf[:, picture.lead : picture.lead + len(picture)]
        _, channels, height, width = batch.inputs["pixel_values"].shape
        pixels = join_patches(image_patches, picture.grid, (channels, height, width))
        return compute_logits(model, replace(batch, inputs={"pixel_values": pixels}))
    swapper = _EmbeddingReplacer(batch, leaf)
    swapper.watch_embeddings(model, stack)
    logits = compute_logits(model, batch)
    check_one_embedding_table(batch, swapper.lookups)
    missing = {"decoder", "same"} - swapper.places if "decoder_input_ids" in batch.inputs else set()
    if missing or swapper.places <= {"later"}:
        raise build_no_lookup_error()
    return logits
