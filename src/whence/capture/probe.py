"""What a model bears in one batch, found out by trying."""

from typing import Any, Literal

import torch
from torch import Tensor

from whence.capture.forward import bare_logits
from whence.data import Encoded, collate

Capacity = Literal["mixed", "equal", "single"]


def capacity(
    model: Any, item: Encoded, *, pad_id: int | None, device: torch.device, max_length: int | None
) -> Capacity:
    """Say whether inputs of different length may share a batch, only equal ones, or none.

    Padding is not neutral everywhere: FNet takes no mask, convolutions see it, XLNet reads the last place. And a
    decoder without a padding token refuses more than one input.
    """
    alone = bare_logits(model, collate([item], pad_id=pad_id, device=device))
    try:
        twice = bare_logits(model, collate([item, item], pad_id=pad_id, device=device))
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
        return "mixed" if _same(bare_logits(model, padded), alone) else "equal"
    except (ValueError, RuntimeError, IndexError):
        return "equal"


def _same(one: Tensor, other: Tensor) -> bool:
    # Above the noise of float32 (several models compute norms in it, whatever their dtype), and far below what a
    # padding token does that is seen.
    bound = 1e-4 * float(other.abs().max()) + 1e-7
    return bool((one - other).abs().max() <= max(bound, 8 * torch.finfo(other.dtype).eps))
