"""Backward pass of a trace: all layers at once, or one by one from the last; a CUDA worker thread for its hooks.

A hook on a tensor sees its gradient when autograd has it in full, whatever the graph. So a layer can be
contracted, and dropped, before the pass has reached the one below it. On CUDA the hooks' work runs in a
thread of its own: PyTorch queues the backward pass without Python, which meanwhile queues the contraction
of the layer above. On small inputs queueing is all that takes time; on a CPU the two would fight for its
cores.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
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
        self._place = self._find_stream()
        if "hidden_grad" not in needs:
            for layer in layers:
                layer.hidden = None
        tensors = [
            *self._leaves,
            *(tensor for layer in layers for tensor in self._select_grad_tensors(layer).values()),
        ]
        if tensors and not (value.requires_grad and all(x.requires_grad for x in tensors)):
            raise build_no_gradient_error()

    def run(self, first: int, visit: LayerVisitor | None) -> list[Tensor | None]:
        """Store the requested gradients in each layer, and return those of the embedding look-ups.

        With `visit`, layers are handed out one by one from the last down to number `first`, and
        gradients are taken no further down.
        """
        with self._resume():
            return self._run_at_once() if visit is None else self._run_by_layer(first, visit)

    def _select_grad_tensors(self, layer: AttentionLayer) -> dict[str, Tensor]:
        return select_grad_tensors(layer, self._needs)

    def _find_stream(self) -> tuple[torch.device, object] | None:
        return find_stream(layer.v.device for layer in self._layers)

    def _compute_grads(self, inputs: list[Tensor]) -> list[Tensor | None]:
        value, self._value = self._value, None
        assert value is not None, "a backward pass runs once"
        if not inputs:
            return []
        try:
            return list(torch.autograd.grad(value.sum(), inputs, allow_unused=True))
        except (
            AssertionError,
            NotImplementedError,
        ) as error:  # Reformer goes back in training only
            raise build_no_gradient_error() from error

    def _run_at_once(self) -> list[Tensor | None]:
        parts = [self._select_grad_tensors(layer) for layer in self._layers]
        inputs = [*self._leaves, *(tensor for part in parts for tensor in part.values())]
        grads = self._compute_grads(inputs)
        if any(grad is None for grad in grads):
            raise build_no_gradient_error()
        rest = iter(grads[len(self._leaves) :])
        for layer, part in zip(self._layers, parts, strict=True):
            store_gradients(layer, {name: next(rest) for name in part}, self._gradient_scale)
        return grads[: len(self._leaves)]

    def _run_by_layer(self, first: int, visit: LayerVisitor) -> list[Tensor | None]:
        layers = self._layers
        missing = {i: set(self._select_grad_tensors(layers[i])) for i in range(first, len(layers))}
        layer_grads: dict[int, dict[str, Tensor | None]] = {i: {} for i in missing}
        next_layer = len(layers) - 1  # the next layer to visit; gradients of lower ones wait

        def finish_layer(layer: AttentionLayer, grads: dict[str, Tensor | None]) -> None:
            if layer.v.is_meta:
                raise UnsuitableModel("a gradient needs no second run of its block")
            store_gradients(layer, grads, self._gradient_scale)
            visit(layer)

        def advance(do: Callable[[QueuedCall], None]) -> None:
            nonlocal next_layer
            while next_layer >= first and not missing[next_layer]:
                number, next_layer = next_layer, next_layer - 1
                do(partial(finish_layer, layers[number], layer_grads.pop(number)))

        # Gradients arrive on the stream of the forward pass: only on that stream is their order known.
        same_stream = self._place is not None and self._place == self._find_stream()
        worker = HookWorker(self._place[1]) if self._place is not None and same_stream else None
        # Autograd may call from another thread, without this context's variables
        # (kernels.use_implementation).
        do = copy_context().run if worker is None else worker

        def hook(number: int, name: str) -> Callable[[Tensor], None]:
            def arrive(grad: Tensor) -> None:
                layer_grads[number][name] = grad
                missing[number].discard(name)
                advance(do)

            return arrive

        handles = [
            tensor.register_hook(hook(number, name))  # type: ignore[no-untyped-call]
            for number in missing
            for name, tensor in self._select_grad_tensors(layers[number]).items()
        ]
        lowest = self._select_grad_tensors(layers[first])
        # Of the lowest layer's tensors one is enough to drive the pass: the block's input, whose gradient
        # is computed last.
        inputs = list(lowest.values())[-1:]
        try:
            with worker or nullcontext():
                advance(do)  # layers without a requested gradient need not wait
                grads = self._compute_grads([*self._leaves, *inputs])
        finally:
            for handle in handles:
                handle.remove()
        if next_layer >= first:
            raise UnsuitableModel(
                "its layers do not lie on one way from the input to the prediction"
            )
        if any(grad is None for grad in grads):
            raise build_no_gradient_error()
        return grads[: len(self._leaves)]


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


QueuedCall = Callable[[], None]

_WORKER_DEVICES = frozenset({"cuda"})


def find_stream(devices: Iterable[torch.device]) -> tuple[torch.device, Any] | None:
    """Return the device and its current stream; None off CUDA, or for several devices."""
    distinct = set(devices)
    if len(distinct) != 1:
        return None
    device = distinct.pop()
    if device.type not in _WORKER_DEVICES:
        return None
    return device, torch.cuda.current_stream(device) if device.type == "cuda" else None


class HookWorker:
    """A thread that runs queued calls in order on one CUDA stream; an error is re-raised on exit.

    After an error, of a call or of the calling thread, the remaining calls are skipped.
    """

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream
        self._steps: SimpleQueue[QueuedCall | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._stopped = False
        # A new thread does not inherit context variables (kernels.use_implementation).
        self._thread = Thread(target=copy_context().run, args=(self._work,), daemon=True)

    def __call__(self, step: QueuedCall) -> None:
        """Queue a call."""
        self._steps.put(step)

    def __enter__(self) -> "HookWorker":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped = self._stopped or error is not None  # an error of a call stays one
        self._steps.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        with _use_stream(self._stream), torch.no_grad():
            while (step := self._steps.get()) is not None:
                if self._stopped:
                    continue
                try:
                    step()
                except BaseException as error:  # __exit__ raises it in the calling thread
                    self._error, self._stopped = error, True
                del step  # frees the tensors it holds


def _use_stream(stream: Any) -> AbstractContextManager[Any]:
    return nullcontext() if stream is None else torch.cuda.stream(stream)
