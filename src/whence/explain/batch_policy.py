"""Batches of one model: which inputs may share one, how many fill the device, and work done batch by batch.

An accelerator is filled by trying: batches start large, and where memory runs out they are halved, for the rest of the
process (whence.tracing.out_of_memory). A CPU does not say that memory ran out, the system ends the process: there the
weights give an upper bound of the memory for each token.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from whence.core.errors import BadParameter
from whence.data.batches import Batch, BatchRules, collate
from whence.data.tokens import EncodedInput
from whence.kernels.device_memory import count_free_bytes
from whence.models.model import LoadedModel
from whence.tracing.batch_probe import BatchOutput, probe_batch_capacity
from whence.tracing.out_of_memory import build_retry_batches

T = TypeVar("T")

# Inputs, and cells (inputs x longest), of one batch. On a CPU larger batches fall out of its cache and are slower
# (bench/tiles.py); an accelerator wants more work at a time.
_CPU_SIZE, _CPU_CELLS = 64, 1024
_DEVICE_SIZE, _DEVICE_CELLS = 512, 65536
# Where values are split by token, padding costs its square: on a CPU, inputs of such a batch have at least this share of
# the longest's tokens. Batches of 5 sentences of 12 to 33 tokens made the matrix products 2.5 times as long.
_CPU_SHORTEST_SPLIT = 0.95
# An accelerator takes more variants that are only run forward: no activations are kept.
_DEVICE_VARIANT_CELLS = 262144
# A CPU's bound is looked at only where it is more than this: most models and texts are far below.
_ALWAYS_FREE = 1 << 30
_SHARE = 0.5  # of the free memory, as other programs need some
# Bytes that values split by token may take (4 GiB); one input is taken whatever its size.
_SPLIT_BYTES = 1 << 32


def choose_batch_policy(
    loaded: LoadedModel,
    items: Sequence[EncodedInput],
    size: int | None = None,
    *,
    variants: bool = False,
    probe: bool = False,
    splits: bool = False,
    read_output: BatchOutput | None = None,
) -> BatchRules:
    """Return the rules for batches of these inputs, of at most `size` inputs; variants of them fill the device.

    With `variants`, changed copies of the inputs will be run as well. With `probe`, so many that it is always tried
    whether lengths may mix. With `splits`, values are split by token, which takes memory for every pair of tokens.
    `read_output` gives what must be the same beside other inputs, by default the logits.
    """
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise BadParameter(f"batch_size must be a whole number, at least 1. Got {size!r}.")
    on_cpu = loaded.device.type == "cpu"
    cells = _CPU_CELLS if on_cpu else _DEVICE_CELLS
    if on_cpu and cells * loaded.bytes_per_token > _ALWAYS_FREE:
        free = count_free_bytes(loaded.device)
        if free is not None:
            cells = min(cells, int(free * _SHARE) // loaded.bytes_per_token)
    if splits:
        # Feed-forward layers are about four times as wide as the rest, and about three values are held at once.
        width = getattr(loaded.model.config, "hidden_size", 768)
        per_cell = 4 * width * max(loaded.dtype.itemsize, 4) * 3
        cells = min(cells, _SPLIT_BYTES // (per_cell * max(map(len, items), default=1)))
    policy = BatchRules(
        size or (_CPU_SIZE if on_cpu else _DEVICE_SIZE),
        cells,
        mixed=False,
        anchors=loaded.anchors,
        variants=cells if on_cpu else _DEVICE_VARIANT_CELLS,
        shortest=_CPU_SHORTEST_SPLIT if splits and on_cpu else 0.0,
    )
    # Image models are trained on batches of images of one size, so these need no probe.
    sure = loaded.modality == "picture" and len({len(item) for item in items}) <= 1
    if not probe and (sure or not (variants or len(items) > 1)):
        return policy
    capacity = probe_batch_capacity(
        loaded.model,
        items,
        pad_id=loaded.pad_id,
        device=loaded.device,
        max_length=loaded.max_length,
        read_output=read_output,
    )
    if capacity == "single":
        return replace(policy, size=1, alone=True)
    return replace(policy, mixed=capacity == "mixed")


def map_batches(
    loaded: LoadedModel,
    kind: str,
    items: Sequence[EncodedInput],
    policy: BatchRules,
    compute: Callable[[Sequence[int], Batch], Iterable[T]],
) -> list[T]:
    """Return the result of `compute` for each input, from the numbers and the batch of inputs of similar length.

    A batch that does not fit into memory is halved. `kind` names the work: a size that does not fit one kind may fit
    another.
    """
    results: dict[int, T] = {}
    work = build_retry_batches(loaded.model, kind, items, policy)
    for numbers in work:
        with work.retry_halved(numbers):
            own = [items[number] for number in numbers]
            batch = collate(own, pad_id=loaded.pad_id, device=loaded.device)
            results |= zip(numbers, compute(numbers, batch), strict=True)
    return [results[number] for number in range(len(items))]
