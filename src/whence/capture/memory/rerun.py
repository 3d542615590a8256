"""The backward pass of a model that ran without a graph: its segments run again, one at a time."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from whence.capture.anatomy.lookups import no_way_back
from whence.capture.attention.layer import AttentionLayer
from whence.capture.backward import Unsuited, Visit, take, wanted
from whence.capture.found import as_found
from whence.capture.memory.segments import Segment
from whence.capture.recorder import Recorder
from whence.data import Batch

Watch = Callable[[Any, Recorder, ExitStack], object]


class Rerun:
    """The gradients, and the attention, of segments.

    `leaves` are what the forward pass started from, and `watch` makes a recorder see attention as it did then, if it
    did.
    """

    def __init__(
        self,
        model: Any,
        batch: Batch,
        segments: list[Segment],
        layers: Sequence[AttentionLayer],
        leaves: Sequence[Tensor],
        value: Tensor,
        needs: frozenset[str],
        watch: Watch | None = None,
        lift: Tensor | None = None,
    ) -> None:
        self._model = model
        self._lift = lift
        self._segments = segments
        self._layers = layers
        self._leaves = list(leaves) if "embedding_grad" in needs else []
        self._value: Tensor | None = value
        self._needs = needs
        self._recorder = Recorder(batch, cut=False)
        self._watch = watch
        self._slopes = any(name.endswith("_grad") for name in needs)
        # By identity of a segment's output or a leaf: what arrived there so far.
        self._arrived: dict[int, Tensor] = {}
        self._differ: list[Tensor] = []  # of each segment: whether it gave something else this time

    def run(self, first: int, visit: Visit | None) -> list[Tensor | None]:
        if self._slopes:
            value, self._value = self._value, None
            assert value is not None
            if not value.requires_grad:
                raise no_way_back()
            self._spread([value.sum()], [None])
            del value
        with as_found(self._model) as stack:
            if self._watch is not None:
                self._watch(self._model, self._recorder, stack)
            while self._wanted_from(first):
                segment = self._segments.pop()
                self._back(segment, lower=bool(self._leaves) or self._wanted_from(first))
                for number in reversed(range(segment.first, segment.end)):
                    if visit is not None and number >= first:
                        visit(self._layers[number])
        if self._differ and bool(torch.stack(self._differ).any()):
            raise Unsuited("a block does not give the same when it is run again")
        found = [self._arrived.get(id(leaf)) for leaf in self._leaves]
        if any(one is None for one in found):
            raise no_way_back()
        return found

    def _wanted_from(self, first: int) -> bool:
        """Say whether any of the segments that are left must be run again."""
        return any(self._leaves or segment.end > first for segment in self._segments)

    def _back(self, segment: Segment, lower: bool) -> None:
        """Run one segment again, take its gradients, and hand on what belongs to what it was given."""
        with torch.set_grad_enabled(self._slopes):
            output, leaves = segment.again()
        self._differ.append(segment.differs(output))
        seen, self._recorder.layers = self._recorder.layers, []
        self._recorder.last_output = None
        if len(seen) != segment.calls:
            raise Unsuited(f"{type(segment.block).__name__} attends otherwise when it is run again")
        own = self._layers[segment.first : segment.end]
        parts = [wanted(layer, self._needs) for layer in seen]
        if not self._slopes:
            grads: list[Tensor | None] = []
        else:
            upstream = self._arrived.pop(id(segment.output), None)
            inputs = [one for part in parts for one in part.values()] + (leaves if lower else [])
            if upstream is None or not output.requires_grad:
                raise no_way_back()
            grads = list(torch.autograd.grad(output, inputs, upstream, allow_unused=True))
        rest = iter(grads)
        for layer, new, part in zip(own, seen, parts, strict=True):
            take(new, {name: next(rest) for name in part}, self._lift)
            if "hidden_grad" not in self._needs:
                new.hidden = None
            layer.become(new)
        if lower and self._slopes:
            pairs = zip(segment.given(), rest, strict=True)
            through = [(one, grad) for one, grad in pairs if grad is not None]
            self._spread([one for one, _ in through], [grad for _, grad in through])

    def _spread(self, tensors: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Bring gradients of what stands between segments down to the outputs of lower ones, and to the leaves."""
        ends = {id(one): one for one in (*(one.output for one in self._segments), *self._leaves)}
        direct = [tensor for tensor in tensors if id(tensor) in ends]
        for tensor, grad in zip(tensors, grads, strict=True):
            if id(tensor) in ends and grad is not None:
                self._add(tensor, grad)
        if len(direct) == len(tensors):
            return
        outer = [pair for pair in zip(tensors, grads, strict=True) if id(pair[0]) not in ends]
        found = torch.autograd.grad(
            [one for one, _ in outer],
            list(ends.values()),
            [grad for _, grad in outer],
            allow_unused=True,
            retain_graph=True,
        )
        for end, grad in zip(ends.values(), found, strict=True):
            if grad is not None:
                self._add(end, grad)

    def _add(self, end: Tensor, grad: Tensor) -> None:
        before = self._arrived.get(id(end))
        self._arrived[id(end)] = grad if before is None else before + grad
