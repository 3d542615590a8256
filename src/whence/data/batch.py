"""Inputs of about the same length, padded together."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whence.core.errors import BadEncoding
from whence.data.encode import Encoded


@dataclass(frozen=True)
class Batch:
    """Several inputs as tensors. `real` is false where there is only padding."""

    items: tuple[Encoded, ...]
    inputs: dict[str, Tensor]  # each (batch, tokens)
    real: Tensor  # (batch, tokens)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class Policy:
    """What may share a batch with what."""

    size: int  # inputs
    cells: int  # inputs x longest
    mixed: bool = True  # different lengths: only where padding changes nothing
    anchors: frozenset[int] = frozenset()  # ids that must come equally often (see models.Loaded)

    def kind(self, item: Encoded) -> Hashable:
        """Inputs of one kind may share a batch."""
        found = sum(identity in self.anchors for identity in item.ids) if self.anchors else 0
        return (*sorted(item.features), found, 0 if self.mixed else len(item))


def collate(
    items: Sequence[Encoded], *, pad_id: int | None, device: torch.device, width: int = 0
) -> Batch:
    """Pad `items` on the right to the longest of them, or to `width` if that is more."""
    width = max(width, *(len(item) for item in items))
    names = list(items[0].features)
    for item in items:
        if sorted(item.features) != sorted(names):
            raise BadEncoding(
                f"One input has {sorted(names)}, another {sorted(item.features)}; in one batch all need the same."
            )
    inputs = {}
    for name in names:
        fill = (pad_id or 0) if name == "input_ids" else 0
        rows = [[*item.features[name], *[fill] * (width - len(item))] for item in items]
        inputs[name] = torch.tensor(rows, dtype=torch.long, device=device)
    lengths = torch.tensor([len(item) for item in items], device=device)
    real = torch.arange(width, device=device) < lengths[:, None]
    return Batch(tuple(items), inputs, real)


def batches(items: Sequence[Encoded], policy: Policy) -> Iterator[list[int]]:
    """Yield the indices of `items` in batches of one kind and like length.

    Longest first, so that a batch too large for the memory shows at once and not after an hour.
    """
    kinds = [policy.kind(item) for item in items]
    order = sorted(range(len(items)), key=lambda i: (str(kinds[i]), -len(items[i]), i))
    current: list[int] = []
    for i in order:
        if current:
            longest = len(items[current[0]])
            full = len(current) >= policy.size or (len(current) + 1) * longest > policy.cells
            if full or kinds[i] != kinds[current[0]]:
                yield current
                current = []
        current.append(i)
    if current:
        yield current
