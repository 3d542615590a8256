"""What a model bears in one batch, found out by trying, once for a model and a kind of input."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from whence.capture.forward import bare_logits
from whence.data import Batch, Encoded, collate

Capacity = Literal["mixed", "equal", "single"]
Said = Callable[[Batch], Tensor]  # a batch to what is read of it, (batch, ...)

_known: WeakKeyDictionary[torch.nn.Module, dict[Hashable, Capacity]] = WeakKeyDictionary()


def capacity(
    model: Any,
    item: Encoded,
    *,
    pad_id: int | None,
    device: torch.device,
    max_length: int | None,
    said: Said | None = None,
) -> Capacity:
    """Say whether inputs of different length may share a batch, only equal ones, or none.

    Padding is not neutral everywhere: FNet takes no mask, convolutions see it, XLNet reads the last place. And a
    decoder without a padding token refuses more than one input. `said` is what is compared; the logits unless given.
    """
    # What is read, and where, decides as much as the model: a head may read the last place, padding or not.
    read = (type(item.reading).__name__, bool(item.answer), item.picture is None, said is None)
    full = max_length is not None and len(item) >= max_length  # there is no room to try padding
    own = getattr(model.config, "pad_token_id", None)
    kind = (*sorted(item.features), *read, full, pad_id, own)
    known = _known.setdefault(model, {})
    if kind not in known:
        tried = partial(bare_logits, model) if said is None else said
        known[kind] = _tried(tried, item, pad_id, device, max_length)
    return known[kind]


def _tried(
    said: Said, item: Encoded, pad_id: int | None, device: torch.device, max_length: int | None
) -> Capacity:
    alone = said(collate([item], pad_id=pad_id, device=device))
    try:
        twice = said(collate([item, item], pad_id=pad_id, device=device))
    except (ValueError, RuntimeError):
        return "single"
    if not _same(twice[:1], alone):
        return "single"
    # Of an encoder-decoder it is the source that is padded, and bounded.
    width = len(item) + 3
    if max_length is not None:
        width = min(width, max(len(item), max_length + len(item.answer)))
    if "attention_mask" not in item.features or width == len(item):
        return "equal"
    padded = collate([item], pad_id=pad_id, device=device, width=width)
    try:
        return "mixed" if _same(said(padded), alone) else "equal"
    except (ValueError, RuntimeError, IndexError):
        return "equal"


def _same(one: Tensor, other: Tensor) -> bool:
    # Above the noise of float32 (several models compute norms in it, whatever their dtype), and far below what a
    # padding token does that is seen.
    bound = 1e-4 * float(other.abs().max()) + 1e-7
    return bool((one - other).abs().max() <= max(bound, 8 * torch.finfo(other.dtype).eps))
