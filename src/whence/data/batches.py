"""Inputs of about the same length, padded together."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import BadEncoding
from whence.data.text.encode import Encoded


@dataclass(frozen=True)
class Batch:
    """Several inputs as tensors. `real` is false where there is only padding."""

    items: tuple[Encoded, ...]
    inputs: dict[str, Tensor]  # each (batch, tokens); of pictures, pixel_values
    # (batch, places): the model's tokens. Those of a decoder stand after those of the encoder and its padding.
    real: Tensor

    def __len__(self) -> int:
        return len(self.items)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.real.device

    @property
    def pictures(self) -> bool:
        """Whether the inputs are pictures."""
        return self.items[0].picture is not None

    @property
    def own(self) -> Tensor:
        """The places of the inputs' own tokens, (batch, places): real ones, less what a model adds to a picture."""
        picture = self.items[0].picture
        if picture is None:
            return self.real
        own = self.real.clone()
        own[:, : picture.lead] = False
        own[:, picture.lead + len(picture) :] = False
        return own

    def spread(self, parts: Sequence[Tensor]) -> Tensor:
        """Put what belongs to each input's tokens at its places, (batch, places, ...); zero everywhere else."""
        if self._even(parts):
            return torch.stack([*parts])
        placed = parts[0].new_zeros((*self.real.shape, *parts[0].shape[1:]))
        for row, part in enumerate(parts):
            done = 0
            for place in self._places(row):
                count = place.stop - place.start
                placed[row, place] = part[done : done + count]
                done += count
        return placed

    def parts(self, placed: Tensor) -> list[Tensor]:
        """Return what stands at each input's own places, (tokens, ...): what `spread` was given."""
        found = []
        for row, one in enumerate(placed.unbind(0)):
            own = [one[place] for place in self._places(row)]
            found.append(own[0] if len(own) == 1 else torch.cat(own))
        return found

    def _even(self, parts: Sequence[Tensor]) -> bool:
        """Say whether there is no place but the inputs' own."""
        return all(len(part) == self.real.shape[1] for part in parts)

    def _places(self, row: int) -> list[slice]:
        """Return where an input's own tokens stand: numbers that are known without asking a device."""
        item = self.items[row]
        if item.picture is not None:
            return [slice(item.picture.lead, item.picture.lead + len(item.picture))]
        sources, answer = len(item) - len(item.answer), len(item.answer)
        if not answer:
            return [slice(0, sources)]
        width = self.inputs["input_ids"].shape[1]
        return [slice(0, sources), slice(width, width + answer)]


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
        sizes = (0, 0) if self.mixed else (len(item) - len(item.answer), len(item.answer))
        seen = None if item.picture is None else (item.picture.grid, *item.picture.pixels.shape)
        read = (type(item.reading).__name__, len(item.labels or ()))
        return (*sorted(item.features), found, *sizes, bool(item.answer), seen, read)


def collate(
    items: Sequence[Encoded], *, pad_id: int | None, device: torch.device, width: int = 0
) -> Batch:
    """Pad `items` on the right to the longest of them, or to `width` if that is more."""
    if items[0].picture is not None:
        return _stacked(items, device)
    lengths = [len(item) - len(item.answer) for item in items]
    width = max(width - max(len(item.answer) for item in items), *lengths)
    names = list(items[0].features)
    for item in items:
        if sorted(item.features) != sorted(names):
            raise BadEncoding(
                f"One input has {sorted(names)}, another {sorted(item.features)}; in one batch all need the same."
            )
    inputs = {}
    for name in names:
        fill = (pad_id or 0) if name == "input_ids" else 0
        columns = [item.features[name] for item in items]
        inputs[name] = _padded(columns, width, fill, device)
    real = _within(lengths, width, device)
    if items[0].answer:
        answers = [item.answer for item in items]
        longest = max(map(len, answers))
        inputs["decoder_input_ids"] = _padded(answers, longest, pad_id or 0, device)
        real = torch.cat([real, _within([*map(len, answers)], longest, device)], dim=1)
    return Batch(tuple(items), inputs, real)


def _padded(rows: Sequence[Sequence[Any]], width: int, fill: int, device: torch.device) -> Tensor:
    blank = fill if isinstance(rows[0][0], int) else (fill,) * len(rows[0][0])  # of a box
    cells = [row if len(row) == width else [*row, *[blank] * (width - len(row))] for row in rows]
    # By way of numpy, which reads numbers faster.
    return torch.from_numpy(np.array(cells, dtype=np.int64)).to(device)


def _within(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    return torch.arange(width, device=device) < torch.tensor(lengths, device=device)[:, None]


def _stacked(items: Sequence[Encoded], device: torch.device) -> Batch:
    pictures = [item.picture for item in items if item.picture is not None]
    pixels = torch.stack([picture.filled() for picture in pictures]).to(device)
    places = pictures[0].tokens or len(pictures[0])
    real = torch.ones(len(items), places, dtype=torch.bool, device=device)
    return Batch(tuple(items), {"pixel_values": pixels}, real)


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
