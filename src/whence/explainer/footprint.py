"""How much memory explaining takes, found out by explaining something short.

Beside the weights it grows with the tokens, because no map of tokens x tokens is stored, and with their square in
models and methods that do store one. Two short inputs tell these parts from each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from whence.capture import TargetSpec, trace
from whence.capture.attention.unwatched import unmasked
from whence.capture.forward import forward
from whence.capture.found import as_found
from whence.capture.memory.meter import Meter
from whence.core.errors import WhenceError
from whence.data import Encoded, collate
from whence.explainer.request import Request
from whence.kernels import tile_of
from whence.models import Loaded

# Tokens; the other input is twice as long. No layer is a multiple of 17 wide: what has a number for each token, and
# what is a copy of weights, are told apart by how many numbers they have.
_SHORT = 17
# How many times its size the copies of a matrix are: as it is, signs parted, and these above each other.
_COPIES = (1, 2, 4)
_PREDICTED = TargetSpec("predicted", None, "logit")
# The head is not asked, as it may not like a short input. Then there is a gradient only where blocks are watched.
_HEADLESS = frozenset({"hidden_grad"})
# Of a probe, tiles are so small that they do not count: how large they are does not depend on the input.
_TILE = 1 << 12
# In place of it, what tiles and the workspaces of an accelerator's libraries take, whatever the input.
_FIXED = {"cpu": 1 << 25}
_FIXED_ELSEWHERE = 1 << 29


@dataclass(frozen=True)
class Footprint:
    """Bytes at the peak of explaining a batch, beside the weights."""

    fixed: int
    per_token: float
    per_square: float = 0.0  # for each pair of tokens

    def of(self, inputs: int, tokens: int) -> int:
        """Return the bytes for so many inputs of so many tokens."""
        return self.fixed + math.ceil(
            inputs * (self.per_token * tokens + self.per_square * tokens**2)
        )

    def inputs(self, room: int, tokens: int) -> int:
        """Return how many inputs of so many tokens find room; one is taken whatever it takes."""
        each = self.of(1, tokens) - self.fixed
        return max(1, int((room - self.fixed) // max(1, each)))


def most(loaded: Loaded) -> int:
    """Return bytes for a token that explaining will hardly exceed: what every matrix takes in and gives, often.

    This costs nothing to find out; where even so much fits, nobody need know better.
    """
    wide = sum(sum(w.shape) for w in loaded.model.parameters() if w.dim() == 2 and len(w) < 2**15)
    shared = max(1, getattr(loaded.model.config, "num_hidden_layers", 1) or 1)
    repeated = shared if getattr(loaded.model.config, "num_hidden_groups", 0) else 1  # ALBERT
    return int(8 * wide * repeated * max(4, loaded.dtype.itemsize))


def measured(loaded: Loaded, item: Encoded, asked: Sequence[Request]) -> Footprint | None:
    """Explain something short by these methods and watch the memory; None where that cannot be done."""
    fixed = _FIXED.get(loaded.device.type, _FIXED_ELSEWHERE)
    try:
        if item.picture is not None:
            whole, copies = _peak(loaded, item, asked)
            return Footprint(fixed + copies, whole / len(item))
        n = min(_SHORT, (loaded.max_length or 2 * _SHORT) // 2)
        short, _ = _peak(loaded, _cut(item, n), asked)
        longer, copies = _peak(loaded, _cut(item, 2 * n), asked)
    except (
        WhenceError,
        RuntimeError,
        ValueError,
        IndexError,
        MemoryError,
    ):  # whoever explains will say it
        return None
    # short = a n + b n², longer = a 2n + b (2n)²
    square = max(0.0, (longer - 2 * short) / (2 * n**2))
    return Footprint(fixed + copies, longer / (2 * n) - square * 2 * n, square)


def _peak(loaded: Loaded, item: Encoded, asked: Sequence[Request]) -> tuple[int, int]:
    """Return the bytes at the peak of explaining one input, and those of copies of weights, whatever the input."""
    batch = collate([item], pad_id=loaded.pad_id, device=loaded.device)
    readers = [request for request in asked if request.reads]
    asks = any(
        request.entry.facts["family"] == "gradient" for request in asked if not request.reads
    )
    matrices = {weight.numel() for weight in loaded.model.parameters() if weight.dim() == 2}
    with Meter({times * size for size in matrices for times in _COPIES}) as meter, tile_of(_TILE):
        if readers:
            needs = frozenset[str]().union(*(request.needs for request in readers))
            needs |= _HEADLESS if needs == {"embedding_grad"} else set()
            seen = trace(
                loaded.model,
                batch,
                needs,
                _PREDICTED,
                "none",
                readers=len(readers),
                checkpoint=loaded.checkpoint,
            )
            for request in readers:
                with torch.inference_mode(False), seen.reading():
                    request.entry.fn(seen, **request.params)
        if asks:
            trace(loaded.model, batch, {"embedding_grad"} | _HEADLESS, _PREDICTED, "none")
        if not readers and not asks:
            with as_found(loaded.model), torch.inference_mode():
                unmasked(loaded.model, partial(forward, loaded.model, batch))
    return meter.peak, meter.peak_apart


def _cut(item: Encoded, length: int) -> Encoded:
    """Return an input of so many tokens that is like another one; it means nothing."""
    features = {name: _repeated(values, length) for name, values in item.features.items()}
    reading = item.reading
    # The last places are there, however short it is; so only their logits are computed, as they will be.
    if reading is not None and not all(place < 0 for place in reading.places or (0,)):
        reading = None
    return replace(item, features=features, tokens=(), words=(), reading=reading)


def _repeated(values: Sequence[int], length: int) -> tuple[int, ...]:
    """Return a sequence of this length that ends as it did: some models look for its last token."""
    body = [*values[:-1]] or [*values]
    times = -(-length // len(body))
    return (*(body * times)[: length - 1], values[-1])
