"""Contractions tile by tile, in PyTorch: any device, any dtype, any mask."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from whence.kernels.hidden import hidden
from whence.kernels.maps import Combination, Maps, has_parts
from whence.kernels.operands import Buffers, Operands, Place, knows_logsumexp, summed_in
from whence.kernels.tiles import Cut, cut
from whence.kernels.visible import Rows, Visible


def contract(
    layer: Maps, row: Tensor, combination: Combination, quotient: Tensor | None = None
) -> Tensor:
    """Return row · mean over heads of f(A, dL/dA, R), (batch, keys), for a row of (batch, queries).

    Rows whose weight is zero cost nothing, and in the last layer that is all but the one the prediction reads.
    """
    work = _Work(layer, row, combination, quotient)
    # A key that is padding has a column to itself, which is wiped in the end. Only a softmax must not see it before.
    late = work.visible.keys if has_parts(layer) and knows_logsumexp(layer) else None
    total = row.new_zeros(row.shape[0], layer.v.shape[2], dtype=work.buffers.dtype)
    for place, tile in work.tiles(late=late is not None):
        total[place.inputs, place.keys] += _times(work.weight(place), tile)
    total *= work.share
    if late is not None:
        total.masked_fill_(~late, 0)
    return total.to(row.dtype)


def gather(
    layer: Maps, columns: Tensor, combination: Combination, quotient: Tensor | None = None
) -> Tensor:
    """Return mean over heads of f(A, dL/dA, R) · columns, (batch, queries, n), for columns of (batch, keys, n)."""
    work = _Work(layer, None, combination, quotient)
    wide = columns.to(work.buffers.dtype)
    total = wide.new_zeros(wide.shape[0], layer.length, wide.shape[2])
    for place, tile in work.tiles():
        total[place.inputs, place.rows] += tile.sum(1) @ wide[place.inputs, place.keys]
    return total.mul_(work.share).to(columns.dtype)


def contract_normalised(
    layer: Maps, row: Tensor, combination: Combination, quotient: Tensor | None = None
) -> Tensor:
    """Return row · M, where M is I + mean over heads of f(A, dL/dA, R), each of its rows divided by its sum."""
    work = _Work(layer, row, combination, quotient)
    total = torch.zeros_like(row, dtype=work.buffers.dtype)
    for place, tile in work.tiles(whole_heads=True):
        ones = tile.new_ones(tile.shape[-1])
        weight = work.weight(place) / (1 + (tile @ ones).sum(1) * work.share)
        total[place.inputs, place.rows] += weight
        total[place.inputs, place.keys] += _times(weight * work.share, tile)
    return total.to(row.dtype)


def _times(weight: Tensor, tile: Tensor) -> Tensor:
    """Multiply a weight for each row with the sum over heads of a tile: one product, all heads below each other."""
    heads = tile.shape[1]
    every = weight[:, None].expand(-1, heads, -1).reshape(len(weight), 1, -1)
    return (every @ tile.flatten(1, 2)).squeeze(1)


class _Work:
    """One contraction: which tiles there are, and what they weigh."""

    def __init__(
        self, layer: Maps, row: Tensor | None, combination: Combination, quotient: Tensor | None
    ) -> None:
        """Take a row of weights; without one, all rows are wanted."""
        self.layer, self.row = layer, row
        self.combination, self.quotient = combination, quotient
        self.buffers = Buffers(summed_in(layer, combination, quotient), layer.v.device)
        self.visible = layer.visible if has_parts(layer) else Visible()
        # The mean over heads; of relevance, half of what the output has is its map's.
        self.share = (0.5 if "relevance" in combination else 1.0) / layer.heads

    def weight(self, place: Place) -> Tensor:
        """Return the weights of a tile's rows, (inputs, rows)."""
        assert self.row is not None
        return self.row[place.inputs, place.rows].to(self.buffers.dtype)

    def tiles(
        self, *, whole_heads: bool = False, late: bool = False
    ) -> Iterator[tuple[Place, Tensor]]:
        """Yield where a tile stands, and f(A, dL/dA, R) there, (inputs, heads, rows, keys).

        Padding that is wiped `late` is not hidden here.
        """
        device, every = self.buffers.device, self.layer.v.shape[2]
        visible = replace(self.visible, keys=None) if late else self.visible
        size = cut(self.layer, visible, self.buffers.dtype, whole_heads=whole_heads)
        weighs = self._weighs(size)
        for inputs in _slices(len(self.layer.v), size.inputs):
            operands = Operands(self.layer, inputs, self.combination, self.quotient, self.buffers)
            for rows, idle in self._rows(inputs, size.rows, weighs):
                keys = visible.reach(_span(rows), every)
                rows = rows if isinstance(rows, slice) else rows.to(device)
                veil = hidden(visible, inputs, rows, keys, device)
                if idle and self.row is not None:
                    weightless = self.row[inputs, rows].eq(0)[:, None, :, None]
                    veil = replace(veil, masks=(*veil.masks, weightless))
                for heads in _slices(self.layer.heads, size.heads):
                    place = Place(inputs, heads, rows, keys)
                    yield place, operands.tile(place, veil)

    def _weighs(self, size: Cut) -> Tensor | None:
        """Return which rows have a weight, (batch, queries); None where asking costs more than it saves.

        An accelerator would have to wait for the answer.
        """
        if self.row is None:
            return None
        small = size.inputs >= len(self.row) and size.rows >= self.layer.length
        if self.row.device.type != "cpu" and small:
            return None
        return self.row.ne(0).cpu()

    def _rows(self, inputs: slice, size: int, weighs: Tensor | None) -> Iterator[tuple[Rows, bool]]:
        """Yield the rows that count for some inputs, and whether there may be one among them that has no weight."""
        if weighs is None:
            for rows in _slices(self.layer.length, size):
                yield rows, self.row is not None
            return
        numbers = weighs[inputs].any(0).nonzero().squeeze(1)
        for part in torch.split(numbers, size) if len(numbers) else ():
            first, last = int(part[0]), int(part[-1])
            whole = last - first + 1 == len(part)
            some: Rows = slice(first, last + 1) if whole else part
            yield some, not bool(weighs[inputs, some].all())


def _slices(total: int, size: int) -> Iterator[slice]:
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


def _span(rows: Rows) -> slice:
    """Return the rows from the first to the last."""
    return rows if isinstance(rows, slice) else slice(int(rows[0]), int(rows[-1]) + 1)
