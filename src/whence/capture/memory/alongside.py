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
