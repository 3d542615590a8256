"""Batches of inputs: padding, collation to tensors, and the choice of inputs that share a batch.

Inputs are grouped by kind and sorted by length, longest first, so that a batch too large for the memory fails
at once and not after an hour.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import BadEncoding
from whence.data.tokens import EncodedInput


@dataclass(frozen=True)
class Batch:
    """Several inputs as tensors. `real` is False at padding."""

    items: tuple[EncodedInput, ...]
    inputs: dict[str, Tensor]  # each (batch, tokens); pixel_values for pictures
    # (batch, places): the model's tokens. A decoder's tokens come after the encoder's and their padding.
    real: Tensor

    def __len__(self) -> int:
        return len(self.items)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.real.device

    @property
    def has_images(self) -> bool:
        """Whether the inputs are images."""
        return self.items[0].picture is not None

    @property
    def own(self) -> Tensor:
        """A mask of the inputs' own tokens, (batch, places): no padding, no class token of an image."""
        picture = self.items[0].picture
        if picture is None:
            return self.real
        own = self.real.clone()
        own[:, : picture.lead] = False
        own[:, picture.lead + len(picture) :] = False
        return own

    def pad_values(self, parts: Sequence[Tensor]) -> Tensor:
        """Place each input's token values at its positions, (batch, places, ...); zero elsewhere."""
        if self._is_unpadded(parts):
            return torch.stack([*parts])
        placed = parts[0].new_zeros((*self.real.shape, *parts[0].shape[1:]))
        for row, part in enumerate(parts):
            start = 0
            for place in self._find_token_slices(row):
                count = place.stop - place.start
                placed[row, place] = part[start : start + count]
                start += count
        return placed

    def unpad_values(self, placed: Tensor) -> list[Tensor]:
        """Return the values at each input's own positions, (tokens, ...): the inverse of `pad_values`."""
        parts = []
        for row, values in enumerate(placed.unbind(0)):
            own = [values[place] for place in self._find_token_slices(row)]
            parts.append(own[0] if len(own) == 1 else torch.cat(own))
        return parts

    def _is_unpadded(self, parts: Sequence[Tensor]) -> bool:
        """Return whether every position is an input's own."""
        return all(len(part) == self.real.shape[1] for part in parts)

    def _find_token_slices(self, row: int) -> list[slice]:
        """Return the slices of an input's own tokens, without synchronising the device."""
        item = self.items[row]
        if item.picture is not None:
            return [slice(item.picture.lead, item.picture.lead + len(item.picture))]
        sources, answer = len(item) - len(item.answer), len(item.answer)
        if not answer:
            return [slice(0, sources)]
        width = self.inputs["input_ids"].shape[1]
        return [slice(0, sources), slice(width, width + answer)]


@dataclass(frozen=True)
class BatchRules:
    """The rules for which inputs may share a batch."""

    size: int  # inputs
    cells: int  # inputs x longest
    mixed: bool = True  # different lengths may mix: only where padding changes nothing
    anchors: frozenset[int] = frozenset()  # ids that must occur equally often (see LoadedModel)

    def group_key(self, item: EncodedInput) -> Hashable:
        """Return the group of an input; inputs with equal keys may share a batch."""
        anchors = sum(identity in self.anchors for identity in item.ids) if self.anchors else 0
        sizes = (0, 0) if self.mixed else (len(item) - len(item.answer), len(item.answer))
        grid = None if item.picture is None else (item.picture.grid, *item.picture.pixels.shape)
        readout = (type(item.reading).__name__, len(item.labels or ()))
        return (*sorted(item.features), anchors, *sizes, bool(item.answer), grid, readout)


def collate(
    items: Sequence[EncodedInput], *, pad_id: int | None, device: torch.device, width: int = 0
) -> Batch:
    """Pad `items` on the right to the longest of them, or to `width` if that is more."""
    if items[0].picture is not None:
        return _collate_images(items, device)
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
        inputs[name] = _pad_rows(columns, width, fill, device)
    real = _build_length_mask(lengths, width, device)
    if items[0].answer:
        answers = [item.answer for item in items]
        longest = max(map(len, answers))
        inputs["decoder_input_ids"] = _pad_rows(answers, longest, pad_id or 0, device)
        real = torch.cat([real, _build_length_mask([*map(len, answers)], longest, device)], dim=1)
    return Batch(tuple(items), inputs, real)


def _pad_rows(rows: Sequence[Sequence[Any]], width: int, fill: int, device: torch.device) -> Tensor:
    blank = fill if isinstance(rows[0][0], int) else (fill,) * len(rows[0][0])  # a padding box
    cells = [row if len(row) == width else [*row, *[blank] * (width - len(row))] for row in rows]
    # numpy converts nested lists faster than torch does.
    return torch.from_numpy(np.array(cells, dtype=np.int64)).to(device)


def _build_length_mask(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    return torch.arange(width, device=device) < torch.tensor(lengths, device=device)[:, None]


def _collate_images(items: Sequence[EncodedInput], device: torch.device) -> Batch:
    pictures = [item.picture for item in items if item.picture is not None]
    pixels = torch.stack([picture.render_pixels() for picture in pictures]).to(device)
    places = pictures[0].tokens or len(pictures[0])
    real = torch.ones(len(items), places, dtype=torch.bool, device=device)
    return Batch(tuple(items), {"pixel_values": pixels}, real)


def plan_batches(items: Sequence[EncodedInput], policy: BatchRules) -> Iterator[list[int]]:
    """Yield the indices of `items` in batches of one group and similar length.

    Longest first, so that a batch too large for the memory shows at once and not after an hour.
    """
    kinds = [policy.group_key(item) for item in items]
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
