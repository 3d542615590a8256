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
