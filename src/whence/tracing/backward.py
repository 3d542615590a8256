"""The backward pass of a trace: all of it at once, or handed out layer by layer, the last one first.

A hook on a tensor sees its gradient when autograd has it in full, whatever the graph. So a layer can be contracted,
and let go, before the pass has reached the one below it.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from whence.capture.anatomy.lookups import Lookup, brought_down, no_way_back
from whence.capture.attention.layer import AttentionLayer
from whence.capture.memory.alongside import Alongside, Step, place

Visit = Callable[[AttentionLayer], None]


class Unsuited(Exception):
    """A model that does not allow this kind of backward pass, for the reason given; another kind may do."""


class Backward(Protocol):
    """A backward pass that was not run yet; it can be run once."""

    def run(self, first: int, visit: Visit | None) -> list[Tensor | None]:
        """Give each layer its gradients, and return those of the look-ups, as far as either was asked for.

        Where someone wants to `visit` the layers, they come one by one, from the last down to number `first`, and
        gradients are taken no further down than that.
        """


class Whole:
    """The gradients of a forward pass whose graph was kept."""

    def __init__(
        self,
        layers: Sequence[AttentionLayer],
        lookups: Sequence[Lookup],
        value: Tensor,
        needs: frozenset[str],
        lift: Tensor | None = None,
    ) -> None:
        self._layers = layers
        self._lift = lift
        self._needs = needs
        self._leaves = [one.leaf for one in lookups] if "embedding_grad" in needs else []
        self._value: Tensor | None = value
        self._place = self._now()
        if "hidden_grad" not in needs:
            for layer in layers:
                layer.hidden = None
        wanted = [*self._leaves, *(one for layer in layers for one in self._wanted(layer).values())]
        if wanted and not (value.requires_grad and all(one.requires_grad for one in wanted)):
            raise no_way_back()

    def run(self, first: int, visit: Visit | None) -> list[Tensor | None]:
        if visit is None:
            return self._at_once()
        return self._one_by_one(first, visit)

    def _wanted(self, layer: AttentionLayer) -> dict[str, Tensor]:
        return wanted(layer, self._needs)

    def _now(self) -> tuple[torch.device, object] | None:
        return place(layer.v.device for layer in self._layers)

    def _grad(self, inputs: list[Tensor]) -> list[Tensor | None]:
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
            raise no_way_back() from error

    def _at_once(self) -> list[Tensor | None]:
        parts = [self._wanted(layer) for layer in self._layers]
        inputs = [*self._leaves, *(one for part in parts for one in part.values())]
        grads = self._grad(inputs)
        if any(grad is None for grad in grads):
            raise no_way_back()
        rest = iter(grads[len(self._leaves) :])
        for layer, part in zip(self._layers, parts, strict=True):
            take(layer, {name: next(rest) for name in part}, self._lift)
        return grads[: len(self._leaves)]

    def _one_by_one(self, first: int, visit: Visit) -> list[Tensor | None]:
        layers = self._layers
        missing = {i: set(self._wanted(layers[i])) for i in range(first, len(layers))}
        arrived: dict[int, dict[str, Tensor | None]] = {i: {} for i in missing}
        following = len(layers) - 1  # whose turn it is; what comes before its turn waits

        def done(layer: AttentionLayer, grads: dict[str, Tensor | None]) -> None:
            take(layer, grads, self._lift)
            visit(layer)

        def advance(do: Callable[[Step], None]) -> None:
            nonlocal following
            while following >= first and not missing[following]:
                number, following = following, following - 1
                do(partial(done, layers[number], arrived.pop(number)))

        # The gradients come on the stream of the forward pass: there, and only there, they can be waited for.
        beside = self._place is not None and self._place == self._now()
        worker = Alongside(self._place[1]) if self._place is not None and beside else None
        # Autograd may call from a thread of its own, which knows nothing of what was set here (kernels.using).
        do = copy_context().run if worker is None else worker

        def hook(number: int, name: str) -> Callable[[Tensor], None]:
            def arrive(grad: Tensor) -> None:
                arrived[number][name] = grad
                missing[number].discard(name)
                advance(do)

            return arrive

        handles = [
            one.register_hook(hook(number, name))  # type: ignore[no-untyped-call]
            for number in missing
            for name, one in self._wanted(layers[number]).items()
        ]
        lowest = self._wanted(layers[first])
        # Nothing below is asked for: of the block's input and what comes later in the block, the input comes last.
        inputs = list(lowest.values())[-1:]
        try:
            with worker or nullcontext():
                advance(do)  # what needs no gradient waits for none
                grads = self._grad([*self._leaves, *inputs])
        finally:
            for handle in handles:
                handle.remove()
        if following >= first:
            raise Unsuited("its layers do not lie on one way from the input to the prediction")
        if any(grad is None for grad in grads):
            raise no_way_back()
        return grads[: len(self._leaves)]


def wanted(layer: AttentionLayer, needs: frozenset[str]) -> dict[str, Tensor]:
    """Return what of a layer a gradient is needed of; the input of its block, if it is, last."""
    found: dict[str, Tensor] = {}
    if "attention_grad" in needs and layer.out is not None:
        found["out"] = layer.out
    if "hidden_grad" in needs and layer.hidden is not None:
        found["hidden"] = layer.hidden
    return found


def take(
    layer: AttentionLayer, grads: dict[str, Tensor | None], lift: Tensor | None = None
) -> None:
    """Keep a layer's gradients, those of a target that was not lifted, and let go of its graph."""
    if "out" in grads:
        layer.take_grad(grads["out"])
        layer.out_grad = brought_down(layer.out_grad, lift)
    if "hidden" in grads and layer.hidden is not None:
        grad = grads["hidden"]
        grad = torch.zeros_like(layer.hidden) if grad is None else grad
        layer.hidden_grad = brought_down(grad, lift)
    layer.let_go()


"""Steps that a thread of their own does, one after another, while whoever hands them over goes on.

A backward pass on an accelerator is queued by PyTorch alone, and Python has nothing to do meanwhile. So it queues
what is made of one layer's gradient while PyTorch queues the next: on small inputs, queueing is all that takes time.
On a CPU the two would fight for its cores.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any

import torch

Step = Callable[[], None]

_DEVICES = frozenset({"cuda"})


def place(devices: Iterable[torch.device]) -> tuple[torch.device, Any] | None:
    """Return the device and the stream on which work is queued now; None if a thread beside is of no use there."""
    found = set(devices)
    if len(found) != 1:
        return None
    device = found.pop()
    if device.type not in _DEVICES:
        return None
    return device, torch.cuda.current_stream(device) if device.type == "cuda" else None


class Alongside:
    """Does steps in their order, on one stream of a device; what one of them raises comes out at the end.

    After that no other step is done, nor after an error of whoever hands them over.
    """

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream
        self._steps: SimpleQueue[Step | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._stopped = False
        # A thread knows nothing of what was set where it was started (kernels.using).
        self._thread = Thread(target=copy_context().run, args=(self._work,), daemon=True)

    def __call__(self, step: Step) -> None:
        """Hand over a step."""
        self._steps.put(step)

    def __enter__(self) -> "Alongside":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._stopped = error is not None
        self._steps.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        with _on(self._stream), torch.no_grad():
            while (step := self._steps.get()) is not None:
                if self._stopped:
                    continue
                try:
                    step()
                except BaseException as error:  # it belongs to another thread, which raises it
                    self._error, self._stopped = error, True
                del step  # and what it holds


def _on(stream: Any) -> AbstractContextManager[Any]:
    return nullcontext() if stream is None else torch.cuda.stream(stream)
