"""Inputs of about the same length, padded together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whence.data.encode import Encoded

# What a padded position holds, per feature; anything else is padded with 0.
_PADDING = {"attention_mask": 0, "token_type_ids": 0}


@dataclass(frozen=True)
class Batch:
    """Several inputs as tensors. `real` is false where there is only padding."""

    items: tuple[Encoded, ...]
    inputs: dict[str, Tensor]  # each (batch, tokens)
    real: Tensor  # (batch, tokens)

    def __len__(self) -> int:
        return len(self.items)


def collate(items: Sequence[Encoded], *, pad_id: int | None, device: torch.device) -> Batch:
    """Pad `items` on the right to the longest of them."""
    longest = max(len(item) for item in items)
    inputs = {}
    for name in items[0].features:
        fill = (pad_id or 0) if name == "input_ids" else _PADDING.get(name, 0)
        rows = [[*item.features[name], *[fill] * (longest - len(item))] for item in items]
        inputs[name] = torch.tensor(rows, dtype=torch.long, device=device)
    lengths = torch.tensor([len(item) for item in items], device=device)
    real = torch.arange(longest, device=device) < lengths[:, None]
    return Batch(tuple(items), inputs, real)


def batches(items: Sequence[Encoded], *, size: int, tokens: int) -> Iterator[list[int]]:
    """Yield the indices of `items` in batches of like length: at most `size` inputs, `tokens` cells each.

    Longest first, so that a batch too large for the memory shows at once and not after an hour.
    Inputs with different features never share a batch.
    """
    order = sorted(range(len(items)), key=lambda i: (sorted(items[i].features), -len(items[i]), i))
    current: list[int] = []
    for i in order:
        if current:
            first = items[current[0]]
            full = len(current) >= size or (len(current) + 1) * len(first) > tokens
            if full or sorted(first.features) != sorted(items[i].features):
                yield current
                current = []
        current.append(i)
    if current:
        yield current
