"""What may share a batch with what, on this model and machine: found out by trying, once, when it first matters."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whence.capture.memory.probe import capacity
from whence.core.errors import BadParameter
from whence.data import Encoded, Policy
from whence.explainer.footprint import Footprint, measured, most
from whence.explainer.request import Request
from whence.kernels.memory import free_bytes
from whence.models import Loaded

# Cells (inputs x longest) of one batch, if the memory is large enough. On a CPU larger batches fall out of its cache
# and are slower (bench/tiles.py); an accelerator wants more work at a time.
_CELLS = {"cpu": 1024}
_CELLS_ELSEWHERE = 32768
INPUTS = 64
# Of variants that are only run forward, an accelerator takes more: nothing is kept of them.
_VARIANTS_ELSEWHERE, _VARIANT_CELLS_ELSEWHERE = 1024, 131072
# What a batch may take of the memory that is free: an estimate is none to the last byte, and others want some, too.
_SHARE = {"cpu": 0.5}
_SHARE_ELSEWHERE = 0.8
# What values that are split by token may take up; one input is taken whatever it takes.
_PARTS_BYTES = 1 << 32


class MemoryWarning(UserWarning):
    """What is about to be tried will hardly find room."""


@dataclass(frozen=True)
class Estimate:
    """What explaining is thought to take, beside the weights."""

    peak: int  # bytes, of the largest batch
    free: int | None  # bytes; None where nobody tells
    inputs: int  # in that batch
    tokens: int  # of the longest of them

    @property
    def fits(self) -> bool:
        """Whether there is room for it, as far as is known."""
        return self.free is None or self.peak <= self.free

    def __str__(self) -> str:
        what = f"{self.inputs} inputs" if self.inputs > 1 else "One input"
        takes = "take" if self.inputs > 1 else "takes"
        left = "" if self.free is None else f", and {_gib(self.free)} are free"
        return f"{what} of {self.tokens} tokens {takes} about {_gib(self.peak)}{left}."


class Sharing:
    """Decides about batches for one model."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._measured: dict[tuple[str, ...], Footprint | None] = {}

    def policy(
        self,
        items: Sequence[Encoded],
        size: int = INPUTS,
        *,
        asks: bool = False,
        tests: bool = False,
    ) -> Policy:
        """Return what may share a batch; with `asks`, variants of the inputs will come too.

        With `tests`, very many variants will come, and it is found out in any case whether lengths may mix.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise BadParameter(f"batch_size must be a whole number, at least 1. Got {size!r}.")
        loaded = self._loaded
        cells = _CELLS.get(loaded.device.type, _CELLS_ELSEWHERE)
        several = len(items) > 1 or asks or tests
        # Pictures of one size are what models of them are trained on, many at once.
        sure = loaded.modality == "picture" and len({len(i) for i in items}) <= 1
        if not tests and (sure or not several):
            return Policy(size, cells, False, loaded.anchors)
        found = capacity(
            loaded.model,
            items,
            pad_id=loaded.pad_id,
            device=loaded.device,
            max_length=loaded.max_length,
        )
        return Policy(1 if found == "single" else size, cells, found == "mixed", loaded.anchors)

    def variants(self, policy: Policy, items: Sequence[Encoded] = ()) -> Policy:
        """Return the policy for variants of some inputs that are only run forward."""
        if policy.size == 1 or self._loaded.device.type in _CELLS:
            return policy
        policy = replace(policy, size=_VARIANTS_ELSEWHERE, cells=_VARIANT_CELLS_ELSEWHERE)
        return self._fitting(policy, items, ())

    def small_enough(
        self, policy: Policy, items: Sequence[Encoded], asked: Sequence[Request]
    ) -> Policy:
        """Return the policy for some methods: as many inputs at a time as the memory takes.

        Where not even one will find room, that is said beforehand, and tried all the same.
        """
        if any("steps" in request.needs for request in asked):
            policy = replace(policy, cells=min(policy.cells, self._parts_at_a_time(items)))
        return self._fitting(policy, items, asked)

    def _fitting(
        self, policy: Policy, items: Sequence[Encoded], asked: Sequence[Request]
    ) -> Policy:
        longest = max(items, key=len, default=None)
        free = free_bytes(self._loaded.device)
        if longest is None or free is None:
            return policy
        room = int(free * _SHARE.get(self._loaded.device.type, _SHARE_ELSEWHERE))
        several = min(max(policy.cells, len(longest)), policy.size * len(longest))
        if most(self._loaded) * several < room:
            return policy
        found = self._footprint(longest, asked)
        if found is None:
            return policy
        if found.of(1, len(longest)) > free:
            self._warn(found, longest, free)
        fitting = found.inputs(room, len(longest)) * len(longest)
        return replace(policy, cells=min(policy.cells, fitting))

    def _footprint(self, item: Encoded, asked: Sequence[Request]) -> Footprint | None:
        key = tuple(sorted(request.name for request in asked))
        if key not in self._measured:
            self._measured[key] = measured(self._loaded, item, asked)
        return self._measured[key]

    def estimate(
        self, items: Sequence[Encoded], size: int, asked: Sequence[Request]
    ) -> Estimate | None:
        """Return what explaining some inputs will take; None where that cannot be found out, or there are none."""
        if not items:
            return None
        longest = max(items, key=len)
        found = self._footprint(longest, asked)
        if found is None:
            return None
        policy = self.policy(items, size, asks=not all(request.reads for request in asked))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryWarning)  # it is what was asked for
            policy = self.small_enough(policy, items, asked)
        # Who asks fills batches with variants.
        count = len(items) if all(request.reads for request in asked) else policy.size
        number = max(1, min(count, policy.size, policy.cells // len(longest)))
        free = free_bytes(self._loaded.device)
        return Estimate(found.of(number, len(longest)), free, number, len(longest))

    def told(self, item: Encoded, asked: Sequence[Request]) -> str:
        """Say what one input is thought to take, or nothing where that cannot be found out."""
        found = self._footprint(item, asked)
        if found is None:
            return ""
        free = free_bytes(self._loaded.device)
        return str(Estimate(found.of(1, len(item)), free, 1, len(item)))

    def _warn(self, found: Footprint, item: Encoded, free: int) -> None:
        short = Estimate(found.of(1, len(item)), free, 1, len(item))
        again = "" if self._loaded.checkpoint else "checkpoint=True (--checkpoint), "
        warnings.warn(
            f"{short} It is tried all the same; if it fails, try {again}a shorter input, or half precision: "
            "dtype='bfloat16'.",
            MemoryWarning,
            stacklevel=2,
        )

    def _parts_at_a_time(self, items: Sequence[Encoded]) -> int:
        """Return the cells of a batch whose values, split by token, still fit: tokens count once more there."""
        config, itemsize = self._loaded.model.config, self._loaded.dtype.itemsize
        # Feed-forward parts are about four times as wide as the rest, and about three values are held at once.
        width = 4 * getattr(config, "hidden_size", 768) * max(itemsize, 4) * 3
        return _PARTS_BYTES // (width * max((len(item) for item in items), default=1))


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{max(1, size >> 20)} MiB"


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
