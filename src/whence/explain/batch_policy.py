"""Batch sizes and memory estimates for one model and device, from the measured footprint of methods.

Beside the weights, memory grows with the tokens, and with their square in models and methods that store
a map of tokens x tokens. Two short inputs (n and 2n tokens) tell these parts apart.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from whence.core.errors import BadParameter, WhenceError
from whence.data.batches import BatchRules, collate
from whence.data.tokens import EncodedInput
from whence.explain.request import MethodRequest
from whence.kernels.device_memory import count_free_bytes
from whence.kernels.tiled import use_tile_size
from whence.models.model import LoadedModel
from whence.tracing.batch_probe import probe_batch_capacity
from whence.tracing.forward import run_forward, run_without_dense_masks
from whence.tracing.out_of_memory import PeakMemoryMeter
from whence.tracing.restore import restore_on_exit
from whence.tracing.target import TargetSpec
from whence.tracing.trace import run_traced

# Tokens of the short probe; the other probe is twice as long. No layer is a multiple of 17 wide, so activations
# and copies of weights are told apart by their number of elements.
_SHORT = 17
# Sizes of weight copies, in multiples of the matrix: plain, split by sign, and the split halves stacked.
_COPIES = (1, 2, 4)
_PREDICTED = TargetSpec("predicted", None, "logit")
# The head is not run, as it may refuse a short input. Then only traced blocks have a gradient.
_HEADLESS = frozenset({"hidden_grad"})
# Tile size in a probe: negligible, because the size of tiles does not depend on the input.
_TILE = 1 << 12
# Added instead: bytes of tiles and of the workspaces of an accelerator's libraries, for any input.
_FIXED = {"cpu": 1 << 25}
_FIXED_ELSEWHERE = 1 << 29


@dataclass(frozen=True)
class Footprint:
    """Peak memory of explaining a batch, in bytes, beside the weights."""

    fixed: int
    per_token: float
    per_square: float = 0.0  # for each pair of tokens

    def estimate_bytes(self, inputs: int, tokens: int) -> int:
        """Return the bytes for `inputs` inputs of `tokens` tokens each."""
        return self.fixed + math.ceil(
            inputs * (self.per_token * tokens + self.per_square * tokens**2)
        )

    def count_inputs(self, room: int, tokens: int) -> int:
        """Return the number of inputs of `tokens` tokens that fit into `room` bytes, at least 1."""
        per_input = self.estimate_bytes(1, tokens) - self.fixed
        return max(1, int((room - self.fixed) // max(1, per_input)))


def estimate_bytes_per_token(loaded: LoadedModel) -> int:
    """Return an upper bound of the bytes per token, from the sizes of all weight matrices.

    It costs nothing to compute; where the bound fits, nothing need be measured.
    """
    wide = sum(sum(w.shape) for w in loaded.model.parameters() if w.dim() == 2 and len(w) < 2**15)
    shared = max(1, getattr(loaded.model.config, "num_hidden_layers", 1) or 1)
    repeated = shared if getattr(loaded.model.config, "num_hidden_groups", 0) else 1  # ALBERT
    return int(8 * wide * repeated * max(4, loaded.dtype.itemsize))


def measure_footprint(
    loaded: LoadedModel, item: EncodedInput, requests: Sequence[MethodRequest]
) -> Footprint | None:
    """Measure the peak memory of these methods on short inputs; None where they cannot be run."""
    fixed = _FIXED.get(loaded.device.type, _FIXED_ELSEWHERE)
    try:
        if item.picture is not None:
            whole, copies = _measure_peak(loaded, item, requests)
            return Footprint(fixed + copies, whole / len(item))
        n = min(_SHORT, (loaded.max_length or 2 * _SHORT) // 2)
        short, _ = _measure_peak(loaded, _resize_input(item, n), requests)
        longer, copies = _measure_peak(loaded, _resize_input(item, 2 * n), requests)
    except (
        WhenceError,
        RuntimeError,
        ValueError,
        IndexError,
        MemoryError,
    ):  # the explanation itself will raise it again
        return None
    # short = a n + b n², longer = a 2n + b (2n)²
    square = max(0.0, (longer - 2 * short) / (2 * n**2))
    return Footprint(fixed + copies, longer / (2 * n) - square * 2 * n, square)


def _measure_peak(
    loaded: LoadedModel, item: EncodedInput, requests: Sequence[MethodRequest]
) -> tuple[int, int]:
    """Return the peak bytes of explaining one input, and the bytes of weight copies apart from it."""
    batch = collate([item], pad_id=loaded.pad_id, device=loaded.device)
    readers = [request for request in requests if request.reads]
    asks = any(
        request.entry.facts["family"] == "gradient" for request in requests if not request.reads
    )
    matrices = {weight.numel() for weight in loaded.model.parameters() if weight.dim() == 2}
    with (
        PeakMemoryMeter({times * size for size in matrices for times in _COPIES}) as meter,
        use_tile_size(_TILE),
    ):
        if readers:
            needs = frozenset[str]().union(*(request.needs for request in readers))
            needs |= _HEADLESS if needs == {"embedding_grad"} else set()
            trace = run_traced(
                loaded.model,
                batch,
                needs,
                _PREDICTED,
                "none",
                readers=len(readers),
                checkpoint=loaded.checkpoint,
            )
            for request in readers:
                with torch.inference_mode(False), trace.reading():
                    request.entry.fn(trace, **request.params)
        if asks:
            run_traced(loaded.model, batch, {"embedding_grad"} | _HEADLESS, _PREDICTED, "none")
        if not readers and not asks:
            with restore_on_exit(loaded.model), torch.inference_mode():
                run_without_dense_masks(loaded.model, partial(run_forward, loaded.model, batch))
    return meter.peak, meter.peak_apart


def _resize_input(item: EncodedInput, length: int) -> EncodedInput:
    """Return a meaningless input of `length` tokens with the features of another one."""
    features = {name: _repeat_values(values, length) for name, values in item.features.items()}
    reading = item.reading
    # Positions counted from the end exist at any length: the readout is kept, and only their logits are computed.
    if reading is not None and not all(place < 0 for place in reading.places or (0,)):
        reading = None
    return replace(item, features=features, tokens=(), words=(), reading=reading)


def _repeat_values(values: Sequence[int], length: int) -> tuple[int, ...]:
    """Return a sequence of this length with the same last token: some models look for it."""
    body = [*values[:-1]] or [*values]
    times = -(-length // len(body))
    return (*(body * times)[: length - 1], values[-1])


# Cells (inputs x longest) of one batch, if the memory is large enough. On a CPU larger batches fall out of its cache
# and are slower (bench/tiles.py); an accelerator wants more work at a time.
_CELLS = {"cpu": 1024}
_CELLS_ELSEWHERE = 32768
MAX_INPUTS = 64
# An accelerator takes more variants that are only run forward: no activations are kept.
_VARIANTS_ELSEWHERE, _VARIANT_CELLS_ELSEWHERE = 1024, 131072
# Share of the free memory that a batch may take: the estimate is not exact, and other programs need some.
_SHARE = {"cpu": 0.5}
_SHARE_ELSEWHERE = 0.8
# Bytes that values split by token may take (4 GiB); one input is taken whatever its size.
_PARTS_BYTES = 1 << 32


class MemoryWarning(UserWarning):
    """Warning that an explanation will probably not fit into memory."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Estimated peak memory of an explanation, beside the weights."""

    peak: int  # bytes, of the largest batch
    free: int | None  # bytes; None where the system does not tell
    inputs: int  # in that batch
    tokens: int  # of the longest of them

    @property
    def fits(self) -> bool:
        """Whether the estimate is within the free memory, or the free memory is unknown."""
        return self.free is None or self.peak <= self.free

    def __str__(self) -> str:
        what = f"{self.inputs} inputs" if self.inputs > 1 else "One input"
        takes = "take" if self.inputs > 1 else "takes"
        left = "" if self.free is None else f", and {_format_bytes(self.free)} are free"
        return f"{what} of {self.tokens} tokens {takes} about {_format_bytes(self.peak)}{left}."


class BatchPlanner:
    """Chooses batch sizes for one model."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._measured: dict[tuple[str, ...], Footprint | None] = {}

    def policy(
        self,
        items: Sequence[EncodedInput],
        size: int = MAX_INPUTS,
        *,
        asks: bool = False,
        tests: bool = False,
    ) -> BatchRules:
        """Return the rules for shared batches; with `asks`, query methods will add variants of the inputs.

        With `tests`, very many variants will come, so it is always probed whether lengths may mix.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise BadParameter(f"batch_size must be a whole number, at least 1. Got {size!r}.")
        loaded = self._loaded
        cells = _CELLS.get(loaded.device.type, _CELLS_ELSEWHERE)
        several = len(items) > 1 or asks or tests
        # Image models are trained on batches of images of one size, so these need no probe.
        sure = loaded.modality == "picture" and len({len(i) for i in items}) <= 1
        if not tests and (sure or not several):
            return BatchRules(size, cells, False, loaded.anchors)
        limit = probe_batch_capacity(
            loaded.model,
            items,
            pad_id=loaded.pad_id,
            device=loaded.device,
            max_length=loaded.max_length,
        )
        return BatchRules(1 if limit == "single" else size, cells, limit == "mixed", loaded.anchors)

    def variants(self, policy: BatchRules, items: Sequence[EncodedInput] = ()) -> BatchRules:
        """Return the batch rules for variants of inputs that are only run forward."""
        if policy.size == 1 or self._loaded.device.type in _CELLS:
            return policy
        policy = replace(policy, size=_VARIANTS_ELSEWHERE, cells=_VARIANT_CELLS_ELSEWHERE)
        return self._fit_cells(policy, items, ())

    def fit_memory(
        self, policy: BatchRules, items: Sequence[EncodedInput], requests: Sequence[MethodRequest]
    ) -> BatchRules:
        """Return the batch rules for these methods, limited to the inputs that fit into memory.

        Where not even one input fits, a warning is given, and it is tried all the same.
        """
        if any("steps" in request.needs for request in requests):
            policy = replace(policy, cells=min(policy.cells, self._count_split_cells(items)))
        if all(request.reads for request in requests):
            return self._fit_cells(policy, items, requests)
        filled = self._fit_cells(replace(policy, size=policy.cells), items, requests)
        variants = self.variants(replace(filled, size=policy.size), items).cells
        return replace(filled, size=policy.size, variants=variants)

    def _fit_cells(
        self, policy: BatchRules, items: Sequence[EncodedInput], requests: Sequence[MethodRequest]
    ) -> BatchRules:
        longest = max(items, key=len, default=None)
        free = count_free_bytes(self._loaded.device)
        if longest is None or free is None:
            return policy
        room = int(free * _SHARE.get(self._loaded.device.type, _SHARE_ELSEWHERE))
        several = min(max(policy.cells, len(longest)), policy.size * len(longest))
        if estimate_bytes_per_token(self._loaded) * several < room:
            return policy
        footprint = self._footprint(longest, requests)
        if footprint is None:
            return policy
        if footprint.estimate_bytes(1, len(longest)) > free:
            self._warn(footprint, longest, free)
        fitting = footprint.count_inputs(room, len(longest)) * len(longest)
        return replace(policy, cells=min(policy.cells, fitting))

    def _footprint(self, item: EncodedInput, requests: Sequence[MethodRequest]) -> Footprint | None:
        key = tuple(sorted(request.name for request in requests))
        if key not in self._measured:
            self._measured[key] = measure_footprint(self._loaded, item, requests)
        return self._measured[key]

    def estimate(
        self, items: Sequence[EncodedInput], size: int, requests: Sequence[MethodRequest]
    ) -> MemoryEstimate | None:
        """Return the memory estimate for these inputs; None if there are none or it fails."""
        if not items:
            return None
        longest = max(items, key=len)
        footprint = self._footprint(longest, requests)
        if footprint is None:
            return None
        policy = self.policy(items, size, asks=not all(request.reads for request in requests))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryWarning)  # the estimate itself tells
            policy = self.fit_memory(policy, items, requests)
        # Query methods fill batches with variants.
        count = min(len(items), policy.size) if all(r.reads for r in requests) else policy.cells
        number = max(1, min(count, policy.cells // len(longest)))
        free = count_free_bytes(self._loaded.device)
        return MemoryEstimate(
            footprint.estimate_bytes(number, len(longest)), free, number, len(longest)
        )

    def describe_estimate(self, item: EncodedInput, requests: Sequence[MethodRequest]) -> str:
        """Return a sentence with the memory estimate for one input, or "" where there is none."""
        footprint = self._footprint(item, requests)
        if footprint is None:
            return ""
        free = count_free_bytes(self._loaded.device)
        return str(MemoryEstimate(footprint.estimate_bytes(1, len(item)), free, 1, len(item)))

    def _warn(self, footprint: Footprint, item: EncodedInput, free: int) -> None:
        estimate = MemoryEstimate(footprint.estimate_bytes(1, len(item)), free, 1, len(item))
        hint = "" if self._loaded.checkpoint else "checkpoint=True (--checkpoint), "
        warnings.warn(
            f"{estimate} It is tried all the same; if it fails, try {hint}a shorter input, or half precision: "
            "dtype='bfloat16'.",
            MemoryWarning,
            stacklevel=2,
        )

    def _count_split_cells(self, items: Sequence[EncodedInput]) -> int:
        """Return the cells of a batch whose values, split by token, still fit: memory is quadratic there."""
        config, itemsize = self._loaded.model.config, self._loaded.dtype.itemsize
        # Feed-forward layers are about four times as wide as the rest, and about three values are held at once.
        width = 4 * getattr(config, "hidden_size", 768) * max(itemsize, 4) * 3
        return _PARTS_BYTES // (width * max((len(item) for item in items), default=1))


def _format_bytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{max(1, size >> 20)} MiB"
