"""Contractions of attention maps tile by tile in PyTorch (any device, dtype, mask): tile masks, sizes, buffers.

Scores, weights and products with the gradient are computed in place, in the same two buffers, one tile
after another: on a CPU fresh memory costs as much as the arithmetic. On a CPU a tile should stay in the
cache (bench/tiles.py).
"""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from whence.core.errors import BadParameter
from whence.kernels.maps import (
    AttentionMaps,
    Combination,
    RowSelection,
    VisibleKeys,
    compute_scale,
    get_output_grad,
    has_factors,
)


@dataclass(frozen=True, eq=False)
class TileMask:
    """The hidden entries of a tile of some inputs, rows and keys, for any of its heads."""

    before: int | None = None  # entries before this diagonal are hidden
    after: int | None = None  # entries after this diagonal are hidden
    # Entries where one of these is true are hidden, (inputs or 1, heads or 1, rows or 1, keys or 1).
    masks: tuple[Tensor, ...] = ()

    def zero(self, tile: Tensor, heads: slice) -> None:
        """Overwrite hidden entries with zero, also where they are NaN."""
        if self.after is not None:
            tile.tril_(self.after)
        if self.before is not None:
            tile.triu_(self.before)
        for mask in self.masks:
            tile.masked_fill_(select_along(mask, 1, heads), 0)

    def exclude(self, scores: Tensor, heads: slice) -> None:
        """Set the scores of hidden entries to -inf, so that the softmax gives them no weight."""
        rows, keys = (torch.arange(size, device=scores.device) for size in scores.shape[-2:])
        for mask in (*_mask_beyond(keys - rows[:, None], self.before, self.after), *self.masks):
            scores.masked_fill_(select_along(mask, 1, heads), -torch.inf)


def build_tile_mask(
    visible: VisibleKeys, inputs: slice, rows: RowSelection, keys: slice, device: torch.device
) -> TileMask:
    """Return the hidden entries of a tile."""
    masks: list[Tensor] = []
    left = None if visible.left is None else -visible.left
    before, after = left, visible.right
    if isinstance(rows, slice):
        first = rows.start - keys.start
        before = None if before is None else first + before
        after = None if after is None else first + after
    else:
        ahead = torch.arange(keys.start, keys.stop, device=device) - rows[:, None]
        masks += _mask_beyond(ahead, before, after)
        before = after = None
    if visible.keys is not None:
        masks.append(~visible.keys[inputs, None, None, keys])
    if visible.rule is not None:
        numbers = rows
        if isinstance(numbers, slice):
            numbers = torch.arange(numbers.start, numbers.stop, device=device)
        masks.append(~select_along(visible.rule(numbers), 0, inputs)[..., keys])
    if visible.dense is not None:
        dense = select_tile_part(visible.dense, inputs, rows, keys)
        masks.append(~dense if dense.dtype == torch.bool else dense == -torch.inf)
    return TileMask(before, after, tuple(masks))


def select_along(table: Tensor, dim: int, selection: RowSelection) -> Tensor:
    """Index a table along a dimension, unless it has size 1 there and broadcasts."""
    if table.shape[dim] == 1:
        return table
    return table[(*[slice(None)] * dim, selection)]


def select_tile_part(table: Tensor, inputs: slice, rows: RowSelection, keys: slice) -> Tensor:
    """Return the part of a mask or bias for a tile of all heads."""
    return select_along(select_along(table, 0, inputs), 2, rows)[..., keys]


def _mask_beyond(ahead: Tensor, before: int | None, after: int | None) -> list[Tensor]:
    """Return masks of the keys outside a band, from their distance to the query, (rows, keys)."""
    masks = []
    if before is not None:
        masks.append((ahead < before)[None, None])
    if after is not None:
        masks.append((ahead > after)[None, None])
    return masks


class TilePosition(NamedTuple):
    """The position of a tile in a layer's maps."""

    inputs: slice
    heads: slice
    rows: RowSelection
    keys: slice


# Bytes of one tile of a map. On a CPU the tile should stay in the cache: bench/tiles.py measures which
# sizes do. An accelerator needs larger tiles.
_TILE_BYTES = {"cpu": 1 << 22}
_DEFAULT_TILE_BYTES = 1 << 26
_TILE_VARIABLE = "WHENCE_TILE_BYTES"

# On a CPU several inputs share a tile only if each is small, because they are copied for that.
_SMALL_INPUT_DIVISOR = 16
# Keys that no query of a tile sees are left out; with enough row tiles that saves half a causal map.
_MIN_ROW_TILES, _MIN_TILE_ROWS = 8, 64

_requested_tile_bytes: ContextVar[int | None] = ContextVar("whence_tile_bytes", default=None)


@contextmanager
def use_tile_size(size: int) -> Iterator[None]:
    """Set the size of tiles in bytes inside the block; a tile has at least one row of one head."""
    token = _requested_tile_bytes.set(size)
    try:
        yield
    finally:
        _requested_tile_bytes.reset(token)


@dataclass(frozen=True)
class TileSize:
    """The number of inputs, heads and query rows of a tile."""

    inputs: int
    heads: int
    rows: int


def select_tile_size(
    layer: AttentionMaps, visible: VisibleKeys, dtype: torch.dtype, *, whole_heads: bool = False
) -> TileSize:
    """Return a tile size within the byte limit: all rows of some heads before some rows of all heads.

    `whole_heads` keeps all heads of a row in one tile. Query heads that share a key head are split
    evenly or not at all.
    """
    batch, key_heads, keys, _ = layer.v.shape
    heads, queries, on_cpu = layer.heads, layer.length, layer.v.device.type == "cpu"
    room = _count_tile_bytes(layer.v.device) // dtype.itemsize
    rows = queries
    if visible.left is not None or visible.right is not None:
        rows = min(queries, max(_MIN_TILE_ROWS, -(-queries // _MIN_ROW_TILES)))
    head_count = heads
    if not whole_heads:
        fitting, groups = room // max(1, rows * keys), heads // key_heads
        head_count = min(heads, fitting - fitting % groups)
        if fitting < groups:
            divisors = [size for size in range(1, groups + 1) if groups % size == 0]
            head_count = max(size for size in divisors if size <= max(1, fitting))
    rows = max(1, min(rows, room // max(1, head_count * keys)))
    inputs = 1
    if head_count == heads and rows == queries:
        room = room // _SMALL_INPUT_DIVISOR if on_cpu else room
        inputs = min(batch, room // max(1, heads * queries * keys))
    return TileSize(max(1, inputs), head_count, rows)


def iterate_row_tiles(layer: AttentionMaps, like: Tensor) -> Iterator[slice]:
    """Yield slices of query rows, each a tile of all inputs and heads within the byte limit."""
    per_row = like.shape[0] * layer.heads * layer.v.shape[2] * like.element_size()
    size = max(1, _count_tile_bytes(like.device) // max(1, per_row))
    for start in range(0, layer.length, size):
        yield slice(start, start + size)


def _count_tile_bytes(device: torch.device) -> int:
    fixed = _requested_tile_bytes.get()
    if fixed is not None:
        return fixed
    if _TILE_VARIABLE in os.environ:
        return _parse_tile_bytes(os.environ[_TILE_VARIABLE])
    return _TILE_BYTES.get(device.type, _DEFAULT_TILE_BYTES)


def _parse_tile_bytes(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise BadParameter(
        f"The environment variable {_TILE_VARIABLE} is {text!r}. It is the size of a tile in bytes, a whole number from 1 "
        f"on, such as {_TILE_BYTES['cpu']}; without it, whence chooses one."
    )


def contract(
    layer: AttentionMaps,
    row: Tensor,
    combination: Combination,
    quotient: Tensor | None = None,
    *,
    normalised: bool = False,
) -> Tensor:
    """Return row · mean over heads of f(A, dL/dA, R), (batch, keys), for a row of (batch, queries).

    With `normalised`, I is added to the mean, and each row of the sum divided by its own sum. Rows of weight
    zero cost nothing; in the last layer these are all but the rows the prediction reads.
    """
    work = _Contraction(layer, row, combination, quotient)
    total = row.new_zeros(row.shape[0], layer.v.shape[2], dtype=work.dtype)
    late_keys = None if normalised else work.late_keys
    for place, tile in work.iterate_tiles(whole_heads=normalised, late=late_keys is not None):
        weight = row[place.inputs, place.rows].to(work.dtype)
        if normalised:
            ones = tile.new_ones(tile.shape[-1])
            weight = weight / (1 + (tile @ ones).sum(1) * work.share)
            total[place.inputs, place.rows] += weight
            weight = weight * work.share
        # One product of stacked heads sums over heads as well.
        stacked = weight[:, None].expand(-1, tile.shape[1], -1).reshape(len(weight), 1, -1)
        total[place.inputs, place.keys] += (stacked @ tile.flatten(1, 2)).squeeze(1)
    if not normalised:
        total *= work.share
    if late_keys is not None:
        total.masked_fill_(~late_keys, 0)
    return total.to(row.dtype)


def gather(
    layer: AttentionMaps, columns: Tensor, combination: Combination, quotient: Tensor | None = None
) -> Tensor:
    """Return mean over heads of f(A, dL/dA, R) · columns, (batch, queries, n), for (batch, keys, n)."""
    work = _Contraction(layer, None, combination, quotient)
    wide = columns.to(work.dtype)
    total = wide.new_zeros(wide.shape[0], layer.length, wide.shape[2])
    for place, tile in work.iterate_tiles():
        total[place.inputs, place.rows] += tile.sum(1) @ wide[place.inputs, place.keys]
    return total.mul_(work.share).to(columns.dtype)


class _Contraction:
    """A contraction of a layer's maps, a tile at a time, in the same two buffers."""

    def __init__(
        self,
        layer: AttentionMaps,
        row: Tensor | None,
        combination: Combination,
        quotient: Tensor | None,
    ) -> None:
        """Take the row that is multiplied; None: all rows are needed."""
        self.layer, self.row = layer, row
        self._heads = layer.heads
        self.dtype = torch.promote_types(layer.v.dtype, torch.float32)
        # The map is multiplied by the product of each factor with the values.
        self._factors: list[Tensor] = []
        if "relevance" in combination:
            assert quotient is not None
            self.dtype = torch.promote_types(self.dtype, quotient.dtype)
            self._factors.append(quotient)
        if "gradient" in combination:
            self._factors.append(get_output_grad(layer))
        self._positive = combination.startswith("positive")
        # The mean over heads; the map gets half of the output's relevance.
        self.share = (0.5 if "relevance" in combination else 1.0) / self._heads
        self.visible, self._logsumexp = VisibleKeys(), None
        if has_factors(layer):
            self.visible = layer.visible
            saved, exact = layer.logsumexp, torch.promote_types(layer.q.dtype, torch.float32)
            # At least as exact as computed here.
            if saved is not None and torch.promote_types(saved.dtype, exact) == saved.dtype:
                self._logsumexp = saved
        # With a known logsumexp, padding keys only fill their own columns, which may be set to zero at
        # the end. Without one, the softmax must exclude them.
        self.late_keys = None if self._logsumexp is None else self.visible.keys
        self._buffers: dict[str, Tensor] = {}

    def iterate_tiles(
        self, *, whole_heads: bool = False, late: bool = False
    ) -> Iterator[tuple[TilePosition, Tensor]]:
        """Yield the position of each tile, and f(A, dL/dA, R) there, (inputs, heads, rows, keys).

        With `late`, the padding in `late_keys` is not hidden here: the caller sets its columns to zero.
        """
        layer, row = self.layer, self.row
        device, key_count = layer.v.device, layer.v.shape[2]
        visible = replace(self.visible, keys=None) if late else self.visible
        size = select_tile_size(layer, visible, self.dtype, whole_heads=whole_heads)
        # Which rows have a weight is asked where the answer saves more than it costs: it synchronises an
        # accelerator.
        small = size.inputs >= len(layer.v) and size.rows >= layer.length
        asks = row is not None and (device.type == "cpu" or not small)
        has_weight = row.ne(0).cpu() if asks and row is not None else None
        if has_weight is not None and bool(has_weight.all()):
            row = has_weight = None
        for start in range(0, len(layer.v), size.inputs):
            inputs = slice(start, start + size.inputs)
            for rows in self._iterate_rows(inputs, size.rows, has_weight):
                if isinstance(rows, slice):
                    keys = visible.reach(rows, key_count)
                else:
                    keys = visible.reach(slice(int(rows[0]), int(rows[-1]) + 1), key_count)
                    rows = rows.to(device)
                mask = build_tile_mask(visible, inputs, rows, keys, device)
                if row is not None and (
                    has_weight is None or not bool(has_weight[inputs, rows].all())
                ):
                    weightless = row[inputs, rows].eq(0)[:, None, :, None]
                    mask = replace(mask, masks=(*mask.masks, weightless))
                for head in range(0, layer.heads, size.heads):
                    heads = slice(head, min(layer.heads, head + size.heads))
                    place = TilePosition(inputs, heads, rows, keys)
                    tile = self._compute_weights(place, mask)
                    if self._factors:
                        self._multiply_factors(tile, place)
                    if self._positive:
                        tile.relu_()
                    mask.zero(tile, heads)
                    yield place, tile

    def _iterate_rows(
        self, inputs: slice, size: int, has_weight: Tensor | None
    ) -> Iterator[RowSelection]:
        """Yield the rows with a weight in some of the inputs, or all rows where that is not known."""
        if has_weight is None:
            for start in range(0, self.layer.length, size):
                yield slice(start, min(self.layer.length, start + size))
            return
        numbers = has_weight[inputs].any(0).nonzero().squeeze(1)
        for part in torch.split(numbers, size) if len(numbers) else ():
            first, last = int(part[0]), int(part[-1])
            yield slice(first, last + 1) if last - first + 1 == len(part) else part

    def _multiply_factors(self, tile: Tensor, place: TilePosition) -> None:
        """Multiply a tile of weights with the product of each factor and the values."""
        for factor in self._factors:
            product = self._take_buffer("product", tile.shape)
            part = factor[place.inputs, place.heads, place.rows].to(self.dtype)
            values = self._select_keys(self.layer.v, place)
            torch.bmm(part.flatten(0, 1), values.mT, out=product.flatten(0, 1))
            tile.mul_(product)

    def _compute_weights(self, place: TilePosition, mask: TileMask) -> Tensor:
        """Return the attention weights of a tile, (inputs, heads, rows, keys); the next call overwrites them."""
        layer, (inputs, heads, rows, keys) = self.layer, place
        if not has_factors(layer):
            weights = layer.weights(rows)[inputs, heads, :, keys]
            return self._take_buffer("tile", weights.shape).copy_(weights)
        q = layer.q[inputs, heads, rows].to(self.dtype)
        k = self._select_keys(layer.k, place)
        scores = self._take_buffer("tile", (*q.shape[:3], k.shape[1]))
        flat, scale = scores.flatten(0, 1), compute_scale(layer)
        logsumexp = None
        if self._logsumexp is not None:
            logsumexp = self._logsumexp[inputs, heads, rows, None].to(self.dtype)
        if logsumexp is not None and layer.softcap is None:
            shift = logsumexp.flatten(0, 1).expand_as(flat)
            torch.baddbmm(shift, q.flatten(0, 1), k.mT, beta=-1, alpha=scale, out=flat)
        else:
            cap = 1.0 if layer.softcap is None else layer.softcap
            torch.baddbmm(flat, q.flatten(0, 1), k.mT, beta=0, alpha=scale / cap, out=flat)
            if layer.softcap is not None:
                scores.tanh_().mul_(cap)
            if logsumexp is not None:
                scores.sub_(logsumexp)
        for table in (layer.bias, layer.visible.dense):
            if table is not None and table.dtype != torch.bool:
                scores += select_along(select_tile_part(table, inputs, rows, keys), 1, heads)
        if logsumexp is not None:
            return scores.exp_()
        mask.exclude(scores, heads)
        if layer.sink is None:
            return torch.softmax(scores, -1, out=scores)
        sink = layer.sink.reshape(-1, 1, 1)[heads].to(scores)
        total = torch.logaddexp(scores.logsumexp(-1, keepdim=True), sink)
        return scores.sub_(total).exp_()

    def _select_keys(self, few: Tensor, place: TilePosition) -> Tensor:
        """Return some keys of the key heads of some query heads, (inputs x heads, keys, width)."""
        heads, groups = place.heads, self._heads // few.shape[1]
        first, last = heads.start // groups, -(-heads.stop // groups)
        part = few[place.inputs, first:last, place.keys].to(self.dtype)
        repeats = (heads.stop - heads.start) // (last - first)
        if repeats == 1:
            return part.flatten(0, 1)
        return part[:, :, None].expand(-1, -1, repeats, -1, -1).flatten(0, 2)

    def _take_buffer(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return an uninitialised tensor of this shape; it invalidates the last one of this name."""
        size, buffer = math.prod(shape), self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = torch.empty(size, dtype=self.dtype, device=self.layer.v.device)
            self._buffers[name] = buffer
        return buffer[:size].view(*shape)
