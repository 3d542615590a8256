"""Edges of attention knocked out while a model runs: what it says without them.

An edge is one weight of one map: that of a layer and a head, from the token that attends to the one it attends to.
Layers above compute their own attention from what is left, so the cut is a cut, and not a replay of old weights.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from whence.capture.attention.recognise import Recognise
from whence.capture.attention.seam import attention_seam, editing
from whence.capture.attention.unwatched import offers_seam
from whence.capture.forward import bare
from whence.capture.found import altering
from whence.core.errors import NotCapturable
from whence.data import Batch

# By layer, counted from 0 in the order of the forward pass: true where an edge is cut, (batch, heads, queries, keys).
Cuts = Mapping[int, Tensor]


class _Scissors:
    """Cuts one attention call after another, and counts them."""

    def __init__(self, cuts: Cuts, renormalise: bool) -> None:
        self.calls = 0
        self._cuts = cuts
        self._renormalise = renormalise

    def __call__(self, weights: Callable[[], Tensor]) -> Tensor | None:
        cut = self._cuts.get(self.calls)
        self.calls += 1
        if cut is None:
            return None
        whole = weights()
        if whole.shape != cut.shape:
            raise NotCapturable(
                f"Attention {self.calls - 1} has weights of {tuple(whole.shape)}; edges were to be cut in "
                f"{tuple(cut.shape)}. Only models whose every layer attends from all tokens to all can be cut."
            )
        left = whole.masked_fill(cut, 0)
        if not self._renormalise:
            return left
        # What a row keeps grows to what the row had; a row that keeps nothing attends to nothing.
        kept = left.sum(-1, keepdim=True)
        grown = left * (whole.sum(-1, keepdim=True) / kept.clamp(min=torch.finfo(kept.dtype).tiny))
        return torch.where(kept > 0, grown, torch.zeros_like(left))


@contextmanager
def cut_logits(
    model: Any, batch_size: int, *, renormalise: bool
) -> Iterator[Callable[[Batch, Cuts], Tensor]]:
    """Yield a function that runs a batch with some edges cut, and returns its logits, (batch, labels).

    Without `renormalise` a row loses what its edges moved. With it, the other weights of the row make up for it, as
    if the edges had been masked before the softmax.
    """
    with altering(model, "edges cut") as stack:
        # One of the seams, not both: each counts the calls.
        if not (offers_seam(model) and stack.enter_context(attention_seam(model, None))):
            stack.enter_context(Recognise(batch_size))
        forward = stack.enter_context(bare(model))

        def run(batch: Batch, cuts: Cuts) -> Tensor:
            scissors = _Scissors(cuts, renormalise)
            with editing(scissors):
                logits = forward(batch)
            if cuts and scissors.calls <= max(cuts):
                raise NotCapturable(
                    f"Edges were to be cut in attention {max(cuts)}, and {type(model).__name__} has "
                    f"{scissors.calls} of them that can be seen. Verify another model."
                )
            return logits

        yield run
