"""Backward pass of a trace: all layers at once, or one by one from the last.

A hook on a tensor sees its gradient when autograd has it in full, whatever the graph. So a layer can be
contracted, and dropped, before the pass has reached the one below it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, cast

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
        self._leaves = [lookup.leaf for lookup in lookups] if "embedding_grad" in needs else []
        self._value: Tensor | None = value
        if "hidden_grad" not in needs:
            for layer in layers:
                layer.hidden = None
        # Of each layer the tensors whose gradients are needed; the input of its block comes last.
        self._tensors: list[dict[str, Tensor]] = [
            {
                need: tensor
                for need, tensor in (("attention_grad", layer.out), ("hidden_grad", layer.hidden))
                if need in needs and tensor is not None
            }
            for layer in layers
        ]
        tensors = [*self._leaves, *(x for part in self._tensors for x in part.values())]
        if tensors and not (value.requires_grad and all(x.requires_grad for x in tensors)):
            raise build_no_gradient_error()

    def run(self, first: int = 0, visit: LayerVisitor | None = None) -> list[Tensor]:
        """Store the gradients in the layers from number `first` on, and return those of the embedding look-ups.

        With `visit`, the layers are visited from the last one down, each as soon as it has its gradients. No
        gradient of a layer below `first` is taken then.
        """
        value, self._value = self._value, None
        assert value is not None, "a backward pass runs once"
        layers, parts = self._layers[first:], self._tensors[first:]
        arrived: list[dict[str, Tensor]] = [{} for _ in layers]
        # By number of a layer; the last one is visited next, and gradients of lower ones wait.
        waiting = list(range(len(layers))) if visit is not None and any(parts) else []
        # Autograd may call from another thread, without this context's variables
        # (kernels.use_implementation).
        context = copy_context()

        def arrive(number: int, need: str, grad: Tensor) -> None:
            arrived[number][need] = grad
            while waiting and len(arrived[waiting[-1]]) == len(parts[waiting[-1]]):
                number = waiting.pop()
                if layers[number].v.is_meta:
                    raise UnsuitableModel("a gradient needs no second run of its block")
                self._store_gradients(layers[number], arrived[number])
                arrived[number] = {}
                context.run(cast(LayerVisitor, visit), layers[number])

        streams = bool(waiting)
        handles = [
            tensor.register_hook(partial(arrive, number, need))  # type: ignore[no-untyped-call]
            for number in waiting
            for need, tensor in parts[number].items()
        ]
        # Of the lowest layer's tensors one is enough to drive the pass: the block's input, whose gradient
        # is computed last.
        tensors = [x for part in parts for x in part.values()]
        inputs = [*self._leaves, *(list(parts[0].values())[-1:] if streams else tensors)]
        try:
            with self._resume():
                grads = (
                    list(torch.autograd.grad(value.sum(), inputs, allow_unused=True))
                    if inputs
                    else []
                )
        except (
            AssertionError,
            NotImplementedError,
        ) as error:  # Reformer goes back in training only
            raise build_no_gradient_error() from error
        finally:
            for handle in handles:
                handle.remove()
        if any(grad is None for grad in grads):
            raise build_no_gradient_error()
        if waiting:
            raise UnsuitableModel(
                "its layers do not lie on one way from the input to the prediction"
            )
        if not streams:
            rest = iter(grads[len(self._leaves) :])
            arrived = [{need: next(rest) for need in part} for part in parts]
            for layer, own in zip(reversed(layers), reversed(arrived), strict=True):
                self._store_gradients(layer, own)
                if visit is not None:
                    visit(layer)
        return grads[: len(self._leaves)]

    def _store_gradients(self, layer: AttentionLayer, grads: dict[str, Tensor]) -> None:
        """Store a layer's gradients without their scale, and drop its graph."""
        scale = self._gradient_scale
        if "attention_grad" in grads:
            grad = layer.heads_first(grads["attention_grad"])
            layer.out_grad = grad if scale is None else undo_gradient_scale(grad, scale)
        if "hidden_grad" in grads:
            grad = grads["hidden_grad"]
            layer.hidden_grad = grad if scale is None else undo_gradient_scale(grad, scale)
        layer.let_go()
