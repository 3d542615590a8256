"""Backward pass of a trace: all layers at once, or one by one from the last.

A hook on a tensor sees its gradient when autograd has it in full, whatever the graph. So a layer can be
contracted, and dropped, before the pass has reached the one below it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any

import torch
from torch import Tensor

from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.structure import EmbeddingLookup, build_no_gradient_error, undo_gradient_scale

LayerVisitor = Callable[[AttentionLayer], None]


class UnsuitableModel(Exception):
    """Raised, with the reason, when a model does not allow this kind of backward pass."""


class BackwardPass:
    """The backward pass through the kept graph of a forward pass; it can be run once."""

    def __init__(
        self,
        layers: Sequence[AttentionLayer],
        lookups: Sequence[EmbeddingLookup],
        value: Tensor,
        needs: frozenset[str],
        gradient_scale: Tensor | None = None,
        resume: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """Take the recorded layers and look-ups, and the explained values; the pass is made inside `resume()`."""
        self._layers = layers
        self._resume = resume
        self._gradient_scale = gradient_scale
        self._needs = needs
        self._leaves = [lookup.leaf for lookup in lookups] if "embedding_grad" in needs else []
        self._value: Tensor | None = value
        if "hidden_grad" not in needs:
            for layer in layers:
                layer.hidden = None
        tensors = [
            *self._leaves,
            *(tensor for layer in layers for tensor in select_grad_tensors(layer, needs).values()),
        ]
        if tensors and not (value.requires_grad and all(x.requires_grad for x in tensors)):
            raise build_no_gradient_error()

    def run(self) -> list[Tensor]:
        """Store the requested gradients in every layer, and return those of the embedding look-ups."""
        parts = [select_grad_tensors(layer, self._needs) for layer in self._layers]
        grads = self._compute_grads([tensor for part in parts for tensor in part.values()])
        rest = iter(grads[len(self._leaves) :])
        for layer, part in zip(self._layers, parts, strict=True):
            store_gradients(layer, {name: next(rest) for name in part}, self._gradient_scale)
        return grads[: len(self._leaves)]

    def run_by_layer(self, first: int, visit: LayerVisitor) -> list[Tensor]:
        """Visit the layers from the last down to number `first`, each with its gradients, and return the look-ups'.

        Gradients are taken no further down.
        """
        parts = {
            i: select_grad_tensors(self._layers[i], self._needs)
            for i in range(first, len(self._layers))
        }
        if not any(parts.values()):
            grads = self.run()
            for number in reversed(parts):
                visit(self._layers[number])
            return grads
        layer_grads: dict[int, dict[str, Tensor | None]] = {number: {} for number in parts}
        waiting = list(parts)  # the last one is visited next; gradients of lower ones wait
        # Autograd may call from another thread, without this context's variables
        # (kernels.use_implementation).
        context = copy_context()

        def arrive(number: int, name: str, grad: Tensor) -> None:
            layer_grads[number][name] = grad
            while waiting and layer_grads[waiting[-1]].keys() == parts[waiting[-1]].keys():
                number = waiting.pop()
                layer = self._layers[number]
                if layer.v.is_meta:
                    raise UnsuitableModel("a gradient needs no second run of its block")
                store_gradients(layer, layer_grads.pop(number), self._gradient_scale)
                context.run(visit, layer)

        handles = [
            tensor.register_hook(partial(arrive, number, name))  # type: ignore[no-untyped-call]
            for number, part in parts.items()
            for name, tensor in part.items()
        ]
        try:
            # Of the lowest layer's tensors one is enough to drive the pass: the block's input, whose gradient
            # is computed last.
            grads = self._compute_grads(list(parts[first].values())[-1:])
        finally:
            for handle in handles:
                handle.remove()
        if waiting:
            raise UnsuitableModel(
                "its layers do not lie on one way from the input to the prediction"
            )
        return grads[: len(self._leaves)]

    def _compute_grads(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the gradients of the embedding look-ups and of these tensors."""
        value, self._value = self._value, None
        assert value is not None, "a backward pass runs once"
        inputs = [*self._leaves, *tensors]
        if not inputs:
            return []
        try:
            with self._resume():
                grads = list(torch.autograd.grad(value.sum(), inputs, allow_unused=True))
        except (
            AssertionError,
            NotImplementedError,
        ) as error:  # Reformer goes back in training only
            raise build_no_gradient_error() from error
        if any(grad is None for grad in grads):
            raise build_no_gradient_error()
        return grads


def select_grad_tensors(layer: AttentionLayer, needs: frozenset[str]) -> dict[str, Tensor]:
    """Return the tensors of a layer that need a gradient; the input of its block comes last."""
    tensors: dict[str, Tensor] = {}
    if "attention_grad" in needs and layer.out is not None:
        tensors["out"] = layer.out
    if "hidden_grad" in needs and layer.hidden is not None:
        tensors["hidden"] = layer.hidden
    return tensors


def store_gradients(
    layer: AttentionLayer, grads: dict[str, Tensor | None], gradient_scale: Tensor | None = None
) -> None:
    """Store a layer's gradients, divided by `gradient_scale`, and drop its graph."""
    if "out" in grads:
        layer.store_output_grad(grads["out"])
        layer.out_grad = undo_gradient_scale(layer.out_grad, gradient_scale)
    if "hidden" in grads and layer.hidden is not None:
        grad = grads["hidden"]
        grad = torch.zeros_like(layer.hidden) if grad is None else grad
        layer.hidden_grad = undo_gradient_scale(grad, gradient_scale)
    layer.let_go()
