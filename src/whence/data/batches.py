"""Batches of inputs: padding, collation to tensors, and the choice of inputs that share a batch.

Inputs are grouped by kind and sorted by length, longest first, so that a batch too large for the memory fails
at once and not after an hour.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import BadEncoding
from whence.data.images import ImageFill
from whence.data.tokens import EncodedInput, IntegerRow


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

    def select(self, rows: Sequence[int]) -> tuple["Batch", Tensor | slice]:
        """Return a batch of these rows, and which positions it keeps: no more padding than they need."""
        items = tuple(self.items[row] for row in rows)
        chosen = torch.tensor(rows, device=self.device)
        inputs = {name: values[chosen] for name, values in self.inputs.items()}
        places: Tensor | slice = slice(None)
        if not self.has_images:
            longest = max(len(item) - len(item.answer) for item in items)
            decoded = max(len(item.answer) for item in items)
            sources, widths = inputs["input_ids"].shape[1], {"decoder_input_ids": decoded}
            inputs = {name: own[:, : widths.get(name, longest)] for name, own in inputs.items()}
            both = (torch.arange(longest), torch.arange(sources, sources + decoded))
            places = torch.cat(both).to(self.device) if decoded else slice(longest)
        return Batch(items, inputs, self.real[chosen][:, places]), places

    def pad_values(self, parts: Sequence[Tensor], rows: Sequence[int] | None = None) -> Tensor:
        """Place token values of each input, or of those in `rows`, (rows, places, ...); zero elsewhere."""
        if all(len(part) == self.real.shape[1] for part in parts):  # no padding
            return torch.stack([*parts])
        placed = parts[0].new_zeros((len(parts), self.real.shape[1], *parts[0].shape[1:]))
        numbers = range(len(self)) if rows is None else rows
        for values, part, row in zip(placed, parts, numbers, strict=True):
            start = 0
            for place in self._find_token_slices(row):
                count = place.stop - place.start
                values[place] = part[start : start + count]
                start += count
        return placed

    def unpad_values(self, placed: Tensor) -> list[Tensor]:
        """Return the values at each input's own positions, (tokens, ...): the inverse of `pad_values`."""
        if all(len(item) == self.real.shape[1] for item in self.items):  # no padding
            return [*placed]
        parts = []
        for row, values in enumerate(placed.unbind(0)):
            own = [values[place] for place in self._find_token_slices(row)]
            parts.append(own[0] if len(own) == 1 else torch.cat(own))
        return parts

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
    variants: int = 0  # cells of variants that are only run forward; 0: as many as of others
    # Tokens that an input must have, as a share of the longest's: padding is work, too.
    shortest: float = 0.0
    alone: bool = (
        False  # a batch holds one input, whatever its size: others would change the answer
    )

    @property
    def for_variants(self) -> "BatchRules":
        """The rules for variants, of which there are many: as many as fill the cells."""
        cells = self.variants or self.cells
        return replace(self, size=1 if self.alone else cells, cells=cells, shortest=0.0)

    def group_key(self, item: EncodedInput) -> Hashable:
        """Return the group of an input; inputs with equal keys may share a batch."""
        anchors = sum(identity in self.anchors for identity in item.ids) if self.anchors else 0
        sizes = (0, 0) if self.mixed else (len(item) - len(item.answer), len(item.answer))
        grid = None if item.picture is None else (item.picture.grid, *item.picture.pixels.shape)
        readout = (type(item.reading).__name__, len(item.labels or ()))
        return (*sorted(item.features), anchors, *sizes, bool(item.answer), grid, readout)


Array = np.ndarray[Any, np.dtype[Any]]
VariantKey = tuple[Hashable, bytes]


@dataclass(frozen=True)
class Variants:
    """Variants of some inputs as arrays, a row each: thousands are made and compared without an object for each."""

    items: Sequence[EncodedInput]
    owners: Array  # (variants,): the number of each one's input
    lengths: Array  # (variants,): the tokens of each
    # (variants, tokens): ids, a decoder's after the source's; of images, which patches are hidden
    changed: Array
    features: dict[str, Array]  # beside the ids, by name (rows, tokens, ...); none of images
    rows: Array  # (variants,): the row of each one's features: its input's, or its own where tokens were deleted
    fill: ImageFill = "black"  # of hidden patches

    @classmethod
    def of(cls, items: Sequence[EncodedInput], owners: Sequence[int] | None = None) -> "Variants":
        """Return each owner (an input's number) unchanged; by default every input."""
        numbers = np.arange(len(items)) if owners is None else np.array(owners, dtype=np.int64)
        lengths = np.array([len(item) for item in items])
        if items[0].picture is not None:
            none = np.zeros((len(items), lengths.max()), dtype=bool)
            return cls(items, numbers, lengths[numbers], none[numbers], {}, numbers)
        names = {name for item in items for name in item.features}
        stacks: dict[str, Array] = {}
        for name in names:
            rows = [
                item.ids if name == "input_ids" else item.features.get(name, ()) for item in items
            ]
            arrays = [
                row.array if isinstance(row, IntegerRow) else np.array(row, dtype=np.int64)
                for row in rows
            ]
            if len({len(array) for array in arrays}) == 1:
                stacks[name] = np.stack(arrays)
                continue
            stacks[name] = np.zeros((len(items), *max(arrays, key=len).shape), dtype=np.int64)
            for place, array in zip(stacks[name], arrays, strict=True):
                place[: len(array)] = array
        ids = stacks.pop("input_ids")
        return cls(items, numbers, lengths[numbers], ids[numbers], stacks, numbers)

    @property
    def real(self) -> Array:
        """Where there are tokens, (variants, tokens)."""
        return np.arange(self.changed.shape[1]) < self.lengths[:, None]

    def delete(self, gone: Array) -> "Variants":
        """Return the variants without some of their tokens, (variants, tokens)."""
        stay = self.real & ~gone
        order = np.argsort(~stay, axis=1, kind="stable")  # the tokens that stay come first
        features = {
            name: values[self.rows[:, None], order] for name, values in self.features.items()
        }
        changed = np.take_along_axis(self.changed, order, axis=1)
        rows = np.arange(len(order))
        return replace(self, lengths=stay.sum(1), changed=changed, features=features, rows=rows)

    def list_kinds(self, policy: BatchRules) -> list[Hashable]:
        """Return the group of each variant; those of one group may share a batch."""
        kinds = [policy.group_key(item) for item in self.items]
        anchors = np.zeros(len(self.owners), dtype=np.int64)
        if policy.anchors and self.items[0].picture is None:
            anchors = (np.isin(self.changed, list(policy.anchors)) & self.real).sum(1)
        sizes = self.lengths * (not policy.mixed)
        rows = zip(self.owners.tolist(), anchors.tolist(), sizes.tolist(), strict=True)
        return [(kinds[owner], *counts) for owner, *counts in rows]

    def build_keys(self) -> list[VariantKey]:
        """Return a key of each variant, equal for two exactly if the model cannot tell them apart."""
        rests: dict[int, tuple[Hashable, ...]] = {}  # all but the ids, by row of the features
        keys: list[VariantKey] = []
        places = zip(self.owners.tolist(), self.rows.tolist(), self.lengths.tolist(), strict=True)
        for ids, (owner, row, length) in zip(self.changed, places, strict=True):
            if row not in rests:
                item, picture = self.items[owner], self.items[owner].picture
                if picture is not None:
                    rest = (picture.digest, picture.blot, picture.fill, self.fill)
                else:
                    names = sorted(item.features.keys() - {"input_ids"})
                    own = slice(length - len(item.answer))
                    parts = (self.features[name][row, own].tobytes() for name in names)
                    rest = (len(item.answer), *names, *parts)
                rests[row] = (item.reading, *rest)
            keys.append((rests[row], ids[:length].tobytes()))
        return keys

    def collate(
        self, rows: Sequence[int], *, pad_id: int | None, device: torch.device, width: int = 0
    ) -> Batch:
        """Return variants of one group as a batch, padded on the right to the longest, or to `width`."""
        chosen = np.array(rows)
        owners, changed = self.owners[chosen], self.changed[chosen]
        items = tuple(self.items[owner] for owner in owners.tolist())
        if items[0].picture is not None:
            return self._collate_images(items, owners, torch.from_numpy(changed), device)
        answers = np.array([len(item.answer) for item in items])
        sources, decoded = self.lengths[chosen] - answers, int(answers.max())
        real = np.arange(max(width - decoded, int(sources.max()))) < sources[:, None]
        arrays = {}
        for name in items[0].features:
            is_ids = name == "input_ids"
            values = changed if is_ids else self.features[name][self.rows[chosen]]
            others = values.ndim - 2
            if (missing := real.shape[1] - values.shape[1]) > 0:
                values = np.pad(values, [(0, 0), (0, missing), *[(0, 0)] * others])
            inside = real.reshape(*real.shape, *[1] * others)
            fill = (pad_id or 0) if is_ids else 0
            arrays[name] = np.where(inside, values[:, : real.shape[1]], fill)
        if decoded:
            places = np.arange(decoded)
            own = places < answers[:, None]
            ids = np.take_along_axis(changed, (sources[:, None] + places) * own, axis=1)
            arrays["decoder_input_ids"] = np.where(own, ids, pad_id or 0)
            real = np.concatenate([real, own], axis=1)
        inputs = {name: torch.from_numpy(values).to(device) for name, values in arrays.items()}
        return Batch(items, inputs, torch.from_numpy(real).to(device))

    def _collate_images(
        self, items: tuple[EncodedInput, ...], owners: Array, hidden: Tensor, device: torch.device
    ) -> Batch:
        numbers, own = np.unique(owners, return_inverse=True)
        pictures = [picture for number in numbers if (picture := self.items[number].picture)]
        first, rows = pictures[0], torch.from_numpy(own).to(device)
        pixels = torch.stack([one.render_pixels() for one in pictures]).to(device)[rows]
        if hidden.any():
            fills = torch.stack([one.build_fill(self.fill) for one in pictures]).to(device)
            covered = first.spread_over_pixels(hidden[:, : len(first)].to(device))
            pixels = torch.where(covered[:, None], fills[rows], pixels)
        real = torch.ones(len(items), first.tokens or len(first), dtype=torch.bool, device=device)
        return Batch(items, {"pixel_values": pixels}, real)


def collate(
    items: Sequence[EncodedInput], *, pad_id: int | None, device: torch.device, width: int = 0
) -> Batch:
    """Pad `items` on the right to the longest of them, or to `width` if that is more."""
    names = sorted(items[0].features)
    for item in items:
        if sorted(item.features) != names:
            raise BadEncoding(
                f"One input has {names}, another {sorted(item.features)}; in one batch all need the same."
            )
    rows = range(len(items))
    return Variants.of(items).collate(rows, pad_id=pad_id, device=device, width=width)


def plan_batches(items: Sequence[EncodedInput], policy: BatchRules) -> Iterator[list[int]]:
    """Yield the indices of `items` in batches of one group and similar length, longest first."""
    kinds = [policy.group_key(item) for item in items]
    return plan_rows(kinds, [len(item) for item in items], policy)


def plan_rows(
    kinds: Sequence[Hashable], lengths: Sequence[int], policy: BatchRules
) -> Iterator[list[int]]:
    """Yield the numbers of rows in batches of one kind and similar length.

    Longest first, so that a batch too large for the memory shows at once and not after an hour.
    """
    names = {kind: str(kind) for kind in set(kinds)}
    order = sorted(range(len(kinds)), key=lambda i: (names[kinds[i]], -lengths[i], i))
    current: list[int] = []
    for i in order:
        if current:
            cells = (len(current) + 1) * lengths[current[0]]
            full = len(current) >= policy.size or cells > policy.cells
            short = lengths[i] < policy.shortest * lengths[current[0]]
            if full or short or kinds[i] != kinds[current[0]]:
                yield current
                current = []
        current.append(i)
    if current:
        yield current
