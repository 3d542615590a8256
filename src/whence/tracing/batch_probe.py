"""What a model bears in one batch, found out by trying, once for a model and a kind of input."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from whence.capture.forward import bare_logits
from whence.core.errors import ModelFailed, NotFinite
from whence.data import Batch, Encoded, collate

Capacity = Literal["mixed", "equal", "single"]
Said = Callable[[Batch], Tensor]  # a batch to what is read of it, (batch, ...)

_known: WeakKeyDictionary[torch.nn.Module, dict[Hashable, Capacity]] = WeakKeyDictionary()


# Tokens of the longest input that is tried: three of it run at once, and what is longer attends as it does.
_LONG = 2048


def capacity(
    model: Any,
    items: Sequence[Encoded],
    *,
    pad_id: int | None,
    device: torch.device,
    max_length: int | None,
    said: Said | None = None,
) -> Capacity:
    """Say whether inputs of different length may share a batch, only equal ones, or none.

    Padding is not neutral everywhere: FNet takes no mask, convolutions see it, XLNet reads the last place, Reformer
    and BigBird attend in another way from some width on. So the shortest of the inputs is tried, also as wide as the
    longest, and the longest that is not too long. Neighbours are not neutral, either, where experts have room for so
    many tokens of a batch. And a decoder without a padding token refuses more than one input. `said` is what is
    compared; the logits unless given.
    """
    few = [item for item in items if len(item) <= _LONG] or items
    tried = {len(one): one for one in (min(items, key=len), max(few, key=len))}
    widest = max(map(len, items))
    found = [
        _capacity(model, one, widest, pad_id, device, max_length, said) for one in tried.values()
    ]
    return max(found, key=("mixed", "equal", "single").index)


def _capacity(
    model: Any,
    item: Encoded,
    widest: int,
    pad_id: int | None,
    device: torch.device,
    max_length: int | None,
    said: Said | None,
) -> Capacity:
    # What is read, and where, decides as much as the model: a head may read the last place, padding or not.
    read = (type(item.reading).__name__, bool(item.answer), item.picture is None, said is None)
    full = max_length is not None and len(item) >= max_length  # there is no room to try padding
    own = getattr(model.config, "pad_token_id", None)
    # Few widths, so that most are known already.
    sizes = (len(item).bit_length(), widest.bit_length(), widest > len(item))
    kind = (*sorted(item.features), *read, full, pad_id, own, *sizes)
    known = _known.setdefault(model, {})
    if kind not in known:
        tried = partial(bare_logits, model) if said is None else said
        known[kind] = _tried(tried, item, pad_id, device, max_length, widest)
    return known[kind]


def _tried(
    said: Said,
    item: Encoded,
    pad_id: int | None,
    device: torch.device,
    max_length: int | None,
    widest: int,
) -> Capacity:
    alone = said(collate([item], pad_id=pad_id, device=device))
    try:
        several = said(collate([item, _turned(item), item], pad_id=pad_id, device=device))
    except _REFUSED:
        return "single"
    if not (_same(several[:1], alone) and _same(several[2:], alone)):
        return "single"
    # Of an encoder-decoder it is the source that is padded, and bounded.
    widths = {len(item) + 1, len(item) + 3, widest}
    if max_length is not None:
        most = max(len(item), max_length + len(item.answer))
        widths = {min(width, most) for width in widths}
    widths -= {len(item)}
    if "attention_mask" not in item.features or not widths:
        return "equal"
    try:
        for width in sorted(widths):
            padded = collate([item], pad_id=pad_id, device=device, width=width)
            if not _same(said(padded), alone):
                return "equal"
    except _REFUSED:
        return "equal"
    return "mixed"


_REFUSED = (ValueError, RuntimeError, IndexError, ModelFailed, NotFinite)


def _turned(item: Encoded) -> Encoded:
    """Return another input of the same length: the tokens from the last to the first, but for both ends."""
    if item.picture is not None or len(item.features["input_ids"]) < 4:
        return item
    first, *inner, last = item.features["input_ids"]
    features = {**item.features, "input_ids": (first, *reversed(inner), last)}
    return replace(item, features=features, tokens=(), words=())


def _same(one: Tensor, other: Tensor) -> bool:
    # Above the noise of float32 (several models compute norms in it, whatever their dtype), and far below what a
    # padding token does that is seen.
    bound = 1e-4 * float(other.abs().max()) + 1e-7
    return bool((one - other).abs().max() <= max(bound, 8 * torch.finfo(other.dtype).eps))
