"""Probe of a model's batching: whether a batch may mix lengths, needs equal lengths, or holds one input.

Run once for a model and a kind of input. Padding is not neutral everywhere: FNet takes no mask,
convolutions see it, XLNet reads the last position, Reformer and BigBird attend in another way from some
width on. Nor are other inputs of a batch, where experts have a capacity per batch. And a decoder without
a padding token refuses more than one input.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from whence.core.errors import ModelFailed, NotFinite
from whence.data.batches import Batch, collate
from whence.data.tokens import EncodedInput
from whence.models.facts import get_facts
from whence.tracing.forward import compute_plain_logits

BatchCapacity = Literal["mixed", "equal", "single"]
BatchOutput = Callable[[Batch], Tensor]  # from a batch to its compared output, (batch, ...)

# Tokens of the longest probed input: three copies run at once, and longer inputs attend alike.
_MAX_PROBED_TOKENS = 2048


def probe_batch_capacity(
    model: Any,
    items: Sequence[EncodedInput],
    *,
    pad_id: int | None,
    device: torch.device,
    max_length: int | None,
    read_output: BatchOutput | None = None,
) -> BatchCapacity:
    """Return whether a batch may mix inputs of different length, only of equal length, or holds one.

    The shortest input is probed, also padded to the width of the longest, and the longest one up to 2,048
    tokens. `read_output` maps a batch to the compared output, by default its logits.
    """
    few = [item for item in items if len(item) <= _MAX_PROBED_TOKENS] or items
    probes = {len(item): item for item in (min(items, key=len), max(few, key=len))}
    widest = max(map(len, items))
    known: dict[Hashable, BatchCapacity] = get_facts(model).batch_capacities
    run = partial(compute_plain_logits, model) if read_output is None else read_output
    build = partial(collate, pad_id=pad_id, device=device)
    capacities = []
    for item in probes.values():
        # The readout matters as much as the model: a head may read the last position, padding or not.
        read = (
            type(item.reading).__name__,
            bool(item.answer),
            item.picture is None,
            read_output is None,
        )
        full = max_length is not None and len(item) >= max_length  # no room for padding
        own_pad_id = getattr(model.config, "pad_token_id", None)
        # Few distinct widths, so that most are cached.
        sizes = (len(item).bit_length(), widest.bit_length(), widest > len(item))
        key = (*sorted(item.features), *read, full, pad_id, own_pad_id, *sizes)
        if key not in known:
            known[key] = _probe_capacity(run, build, item, max_length, widest)
        capacities.append(known[key])
    return max(capacities, key=("mixed", "equal", "single").index)


def _probe_capacity(
    run: BatchOutput,
    build: Callable[..., Batch],
    item: EncodedInput,
    max_length: int | None,
    widest: int,
) -> BatchCapacity:
    alone = run(build([item]))
    try:
        several = run(build([item, _reverse_tokens(item), item]))
    except _REFUSALS:
        return "single"
    if not (_is_close(several[:1], alone) and _is_close(several[2:], alone)):
        return "single"
    # In an encoder-decoder the source is padded and limited in length, not the decoder's tokens.
    widths = {len(item) + 1, len(item) + 3, widest}
    if max_length is not None:
        most = max(len(item), max_length + len(item.answer))
        widths = {min(width, most) for width in widths}
    widths -= {len(item)}
    if "attention_mask" not in item.features or not widths:
        return "equal"
    try:
        for width in sorted(widths):
            if not _is_close(run(build([item], width=width)), alone):
                return "equal"
    except _REFUSALS:
        return "equal"
    return "mixed"


_REFUSALS = (ValueError, RuntimeError, IndexError, ModelFailed, NotFinite)


def _reverse_tokens(item: EncodedInput) -> EncodedInput:
    """Return another input of the same length: the tokens reversed, except both ends."""
    if item.picture is not None or len(item.features["input_ids"]) < 4:
        return item
    first, *inner, last = item.features["input_ids"]
    features = {**item.features, "input_ids": (first, *reversed(inner), last)}
    return replace(item, features=features, tokens=(), words=())


def _is_close(actual: Tensor, expected: Tensor) -> bool:
    # Above the rounding of float32, in which several models compute norms whatever their dtype, and
    # far below the effect of a visible padding token.
    bound = 1e-4 * float(expected.abs().max()) + 1e-7
    return bool((actual - expected).abs().max() <= max(bound, 8 * torch.finfo(expected.dtype).eps))
