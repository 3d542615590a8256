"""A model that attends in another manner, or is watched while it attends, for the length of a `with` block.

Unlike a trace this neither freezes the model nor puts it into evaluation mode: models are trained in here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whence.capture.attention.layer import AttentionLayer
from whence.capture.attention.recognise import Recognise
from whence.capture.attention.seam import Manner, attending, attention_seam
from whence.capture.found import altering, turn


@contextmanager
def attention_as(model: Any, manner: Manner) -> Iterator[None]:
    """Let all layers, heads and rows of a model attend in another manner.

    "uniform": to all keys alike that may be attended to. "detached": as ever, but to a gradient the weights are
    constants. "own": as ever. Dropout of attention weights is left out meanwhile.
    """
    if manner == "own":
        yield
        return
    # Both seams at once: a model uses one of them, and the other one does nothing.
    with altering(model, f"attention {manner}") as stack:
        stack.enter_context(attending(manner))
        stack.enter_context(attention_seam(model, None))
        stack.enter_context(Recognise(None))
        yield


class _Watch(list[AttentionLayer]):
    def attention(self, layer: AttentionLayer) -> None:
        self.append(layer)


@contextmanager
def watching(model: Any, batch_size: int) -> Iterator[list[AttentionLayer]]:
    """Yield a list that fills with the layers' attention while the model runs, the graph of autograd attached."""
    seen = _Watch()
    with turn(model), attention_seam(model, seen), Recognise(batch_size, seen.append):
        yield seen
