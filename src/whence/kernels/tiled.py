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


"""What of a tile is hidden: the keys that its queries may not see."""

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.kernels.visible import Rows, Visible


@dataclass(frozen=True, eq=False)
class Hidden:
    """The hidden part of a tile of some inputs, rows and keys, whatever its heads."""

    before: int | None = None  # all that stands before this diagonal
    after: int | None = None  # all that stands after this one
    # And where one of these is true, (inputs or 1, heads or 1, rows or 1, keys or 1).
    masks: tuple[Tensor, ...] = ()

    def zero(self, tile: Tensor, heads: slice) -> None:
        """Write zero over what is hidden, whatever stood there."""
        if self.after is not None:
            tile.tril_(self.after)
        if self.before is not None:
            tile.triu_(self.before)
        for mask in self.masks:
            tile.masked_fill_(some(mask, 1, heads), 0)

    def exclude(self, scores: Tensor, heads: slice) -> None:
        """Make the scores of what is hidden so low that no softmax sees them."""
        rows, keys = (torch.arange(size, device=scores.device) for size in scores.shape[-2:])
        for mask in (*_beyond(keys - rows[:, None], self.before, self.after), *self.masks):
            scores.masked_fill_(some(mask, 1, heads), -torch.inf)


def hidden(
    visible: Visible, inputs: slice, rows: Rows, keys: slice, device: torch.device
) -> Hidden:
    """Return what is hidden from some rows."""
    masks: list[Tensor] = []
    left = None if visible.left is None else -visible.left
    before, after = left, visible.right
    if isinstance(rows, slice):
        first = rows.start - keys.start
        before = None if before is None else first + before
        after = None if after is None else first + after
    else:
        ahead = torch.arange(keys.start, keys.stop, device=device) - rows[:, None]
        masks += _beyond(ahead, before, after)
        before = after = None
    if visible.keys is not None:
        masks.append(~visible.keys[inputs, None, None, keys])
    if visible.rule is not None:
        numbers = rows
        if isinstance(numbers, slice):
            numbers = torch.arange(numbers.start, numbers.stop, device=device)
        masks.append(~some(visible.rule(numbers), 0, inputs)[..., keys])
    if visible.dense is not None:
        dense = part(visible.dense, inputs, rows, keys)
        masks.append(~dense if dense.dtype == torch.bool else dense == -torch.inf)
    return Hidden(before, after, tuple(masks))


def some(table: Tensor, dim: int, chosen: Rows) -> Tensor:
    """Choose along a dimension, unless the table is the same all along it."""
    if table.shape[dim] == 1:
        return table
    return table[(*[slice(None)] * dim, chosen)]


def part(table: Tensor, inputs: slice, rows: Rows, keys: slice) -> Tensor:
    """Return a mask's or a bias's part in a tile of all heads."""
    return some(some(table, 0, inputs), 2, rows)[..., keys]


def _beyond(ahead: Tensor, before: int | None, after: int | None) -> list[Tensor]:
    """Return where keys so far ahead of their queries, (rows, keys), are out of reach."""
    found = []
    if before is not None:
        found.append((ahead < before)[None, None])
    if after is not None:
        found.append((ahead > after)[None, None])
    return found


"""How a tile of f(A, dL/dA, R) is made.

In place: scores, weights and products with the gradient stand in the same two buffers, one tile after another. On a
CPU fresh memory costs as much as the arithmetic.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.kernels.hidden import Hidden, part, some
from whence.kernels.maps import Combination, Maps, Parts, gradient_of, has_parts
from whence.kernels.visible import Rows


class Place(NamedTuple):
    """Where a tile stands in a layer's maps."""

    inputs: slice
    heads: slice
    rows: Rows
    keys: slice


class Operands:
    """What some inputs of a layer bring to their tiles, in the dtype that is summed in; mostly views."""

    def __init__(
        self,
        layer: Maps,
        inputs: slice,
        combination: Combination,
        quotient: Tensor | None,
        buffers: "Buffers",
    ) -> None:
        """Take what a combination is made of."""
        self._layer, self._inputs, self._buffers = layer, inputs, buffers
        self._positive = combination.startswith("positive")
        self._groups = layer.heads // layer.v.shape[1]
        self._v = self._taken(layer.v)
        # What the map is multiplied with, each of them in a product with the values.
        self._factors: list[Tensor] = []
        if "relevance" in combination:
            assert quotient is not None
            self._factors.append(self._taken(quotient))
        if "gradient" in combination:
            self._factors.append(self._taken(gradient_of(layer)))
        self._q, self._k, self._logsumexp = self._v, self._v, None
        if has_parts(layer):
            self._q, self._k = self._taken(layer.q), self._taken(layer.k)
            if layer.logsumexp is not None and knows_logsumexp(layer):
                self._logsumexp = self._taken(layer.logsumexp)[..., None]

    def tile(self, place: Place, veil: Hidden) -> Tensor:
        """Return f in some place, (inputs, heads, rows, keys); it stands until the next one is asked for."""
        tile = self._weights(place, veil)
        for factor in self._factors:
            product = self._buffers.take("product", tile.shape)
            values = self._shared(self._v, place)
            torch.bmm(_flat(factor[:, place.heads, place.rows]), values.mT, out=_flat(product))
            tile.mul_(product)
        if self._positive:
            tile.relu_()
        veil.zero(tile, place.heads)
        return tile

    def _weights(self, place: Place, veil: Hidden) -> Tensor:
        layer, (_, heads, rows, keys) = self._layer, place
        if not has_parts(layer):
            stored = layer.weights(rows)[self._inputs, heads, :, keys]
            return self._buffers.take("tile", stored.shape).copy_(stored)
        scores = self._scores(layer, place)
        for table in (layer.bias, layer.visible.dense):
            if table is not None and table.dtype != torch.bool:
                scores += some(part(table, self._inputs, rows, keys), 1, heads)
        if self._logsumexp is not None:
            return scores.exp_()
        veil.exclude(scores, heads)
        if layer.sink is None:
            return torch.softmax(scores, -1, out=scores)
        sink = layer.sink.reshape(-1, 1, 1)[heads].to(scores)
        total = torch.logaddexp(scores.logsumexp(-1, keepdim=True), sink)
        return scores.sub_(total).exp_()

    def _scores(self, layer: Parts, place: Place) -> Tensor:
        """Return scale · q kᵀ, capped, less the logsumexp where it is known."""
        q, k = self._q[:, place.heads, place.rows], self._shared(self._k, place)
        scores = self._buffers.take("tile", (*q.shape[:3], k.shape[1]))
        flat, scale = _flat(scores), q.shape[-1] ** -0.5 if layer.scale is None else layer.scale
        less = None if self._logsumexp is None else self._logsumexp[:, place.heads, place.rows]
        if less is not None and layer.softcap is None:
            torch.baddbmm(
                _flat(less).expand_as(flat), _flat(q), k.mT, beta=-1, alpha=scale, out=flat
            )
            return scores
        cap = 1.0 if layer.softcap is None else layer.softcap
        torch.baddbmm(flat, _flat(q), k.mT, beta=0, alpha=scale / cap, out=flat)
        if layer.softcap is not None:
            scores.tanh_().mul_(cap)
        return scores if less is None else scores.sub_(less)

    def _taken(self, tensor: Tensor) -> Tensor:
        return tensor[self._inputs].to(self._buffers.dtype)

    def _shared(self, few: Tensor, place: Place) -> Tensor:
        """Return some keys of the key heads of some query heads, (inputs x heads, keys, width)."""
        first, last = place.heads.start // self._groups, -(-place.heads.stop // self._groups)
        chosen = few[:, first:last, place.keys]
        each = (place.heads.stop - place.heads.start) // (last - first)
        if each == 1:
            return _flat(chosen)
        return chosen[:, :, None].expand(-1, -1, each, -1, -1).flatten(0, 2)


class Buffers:
    """Memory for one tile after another."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        """Hold none yet."""
        self.dtype, self.device = dtype, device
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return a tensor of this shape, with anything in it: what had this name before is no more."""
        size, held = math.prod(shape), self._held.get(name)
        if held is None or len(held) < size:
            held = self._held[name] = torch.empty(size, dtype=self.dtype, device=self.device)
        return held[:size].view(*shape)


def summed_in(layer: Maps, combination: Combination, quotient: Tensor | None) -> torch.dtype:
    """Return the dtype in which a contraction is computed: float32, or float64 if something is."""
    dtype = torch.promote_types(layer.v.dtype, torch.float32)
    if quotient is not None and "relevance" in combination:
        return torch.promote_types(dtype, quotient.dtype)
    return dtype


def knows_logsumexp(layer: Parts) -> bool:
    """Say whether the forward pass left the logsumexp, as exact as it would be computed here."""
    exact = torch.promote_types(layer.q.dtype, torch.float32)
    left = layer.logsumexp
    return left is not None and torch.promote_types(left.dtype, exact) == left.dtype


def _flat(tensor: Tensor) -> Tensor:
    return tensor.flatten(0, 1)


"""How much of a map is made at a time: inputs x heads x query rows that make a good tile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from whence.core.errors import BadParameter
from whence.kernels.maps import Maps
from whence.kernels.memory import lately_free
from whence.kernels.visible import Visible

# Bytes of one tile of a map. On a CPU the tile should stay in its cache: bench/tiles.py shows which sizes do.
# An accelerator wants more at a time.
_BYTES = {"cpu": 1 << 22}
_BYTES_ELSEWHERE = 1 << 26
# A few tiles stand side by side while they are combined, and others want memory, too.
_SHARE_OF_FREE = 16
_VARIABLE = "WHENCE_TILE_BYTES"

# Several inputs share a tile on a CPU only if one of them is small: it has to be copied for that.
_SMALL = 16
# Keys that no query of a tile sees are left out, which saves half of a causal map, if it is cut into enough rows.
_CUTS, _FEWEST_ROWS = 8, 64

_fixed: ContextVar[int | None] = ContextVar("whence_tile_bytes", default=None)


@contextmanager
def tile_of(size: int) -> Iterator[None]:
    """Let tiles have so many bytes, at least one row of one head."""
    token = _fixed.set(size)
    try:
        yield
    finally:
        _fixed.reset(token)


@dataclass(frozen=True)
class Cut:
    """How many inputs, heads and query rows a tile has."""

    inputs: int
    heads: int
    rows: int


def cut(layer: Maps, visible: Visible, dtype: torch.dtype, *, whole_heads: bool = False) -> Cut:
    """Return the size of a good tile: all rows of some heads, before some rows of all heads.

    `whole_heads` wants all heads of a row in one tile. Query heads that share a key head are parted evenly or not at
    all.
    """
    batch, key_heads, keys, _ = layer.v.shape
    heads, queries, on_cpu = layer.heads, layer.length, layer.v.device.type == "cpu"
    room = _bytes(layer.v.device) // dtype.itemsize
    rows = queries
    if visible.left is not None or visible.right is not None:
        rows = min(queries, max(_FEWEST_ROWS, -(-queries // _CUTS)))
    some = heads
    if not whole_heads:
        some = _parted(room // max(1, rows * keys), heads, heads // key_heads)
    rows = max(1, min(rows, room // max(1, some * keys)))
    inputs = 1
    if some == heads and rows == queries:
        room = room // _SMALL if on_cpu else room
        inputs = min(batch, room // max(1, heads * queries * keys))
    return Cut(max(1, inputs), some, rows)


def _parted(room: int, heads: int, groups: int) -> int:
    if room >= groups:
        return min(heads, room - room % groups)
    return max(one for one in range(1, groups + 1) if groups % one == 0 and one <= max(1, room))


def row_tiles(layer: Maps, like: Tensor) -> Iterator[slice]:
    """Yield all query rows, as many at a time as make a good tile of all inputs and heads."""
    per_row = like.shape[0] * layer.heads * layer.v.shape[2] * like.element_size()
    size = max(1, _bytes(like.device) // max(1, per_row))
    for start in range(0, layer.length, size):
        yield slice(start, start + size)


def _bytes(device: torch.device) -> int:
    fixed = _fixed.get()
    if fixed is not None:
        return fixed
    if _VARIABLE in os.environ:
        return _wanted(os.environ[_VARIABLE])
    good = _BYTES.get(device.type, _BYTES_ELSEWHERE)
    free = lately_free(device)
    return good if free is None else min(good, free // _SHARE_OF_FREE)


def _wanted(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise BadParameter(
        f"The environment variable {_VARIABLE} is {text!r}. It is the size of a tile in bytes, a whole number from 1 "
        f"on, such as {_BYTES['cpu']}; without it, whence chooses one."
    )
