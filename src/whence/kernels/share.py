"""What an attention's output carries, shared between its queries, keys and values, without its map.

With O = A V and S = R_O / O, the values get Aᵀ S and the map R_A = A ∘ (S Vᵀ) / 2. It goes through the softmax as it
is, and half of it each to queries and keys, in proportion to the products of theirs.
"""

from copy import copy
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor

from whence.kernels import pointwise
from whence.kernels.choice import may_fuse
from whence.kernels.maps import Parts
from whence.kernels.tiles import row_tiles


class Shares(NamedTuple):
    """What each of them gets, shaped like it, and what the map carried before and after its mask, (batch,) each.

    Where the mask has no rule of its own, there is no such difference.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    before: Tensor | None = None
    after: Tensor | None = None


class _Fused(Protocol):
    def takes(self, layer: Parts, quotient: Tensor) -> bool: ...

    def share(
        self, layer: Parts, quotient: Tensor, *, signed: bool, masked: bool, size: float
    ) -> tuple[Tensor, ...]: ...


@torch.no_grad()
def share(layer: Parts, quotient: Tensor, *, signed: bool, masked: bool) -> Shares:
    """Share what the output carries, given over its value, (batch, heads, queries, width).

    `signed` is the way to divide (`pointwise`); `masked` adds the mask to the scores by a rule of its own, the
    authors' for sums, which shows only where what is divided by is not signed.
    """
    fused = _fused(quotient)
    if fused is not None and fused.takes(layer, quotient):
        size = pointwise.size(signed, quotient)
        return Shares(*fused.share(layer, quotient, signed=signed, masked=masked, size=size))
    return _tiled(layer, quotient, signed=signed, masked=masked)


def _fused(like: Tensor) -> _Fused | None:
    if not may_fuse(like):
        return None
    from whence.kernels.fused import share as fused

    return cast(_Fused, fused)


def _tiled(layer: Parts, quotient: Tensor, *, signed: bool, masked: bool) -> Shares:
    divide = pointwise.signed if signed else pointwise.unsigned
    q, k, v = (one.to(quotient.dtype) for one in (layer.q, layer.k, layer.v))
    layer = copy(layer)
    layer.q, layer.k, layer.v = q, k, v
    to_q, to_k, to_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    masked = masked and not signed
    before, after = q.new_zeros(len(q)), q.new_zeros(len(q))
    scale = q.shape[-1] ** -0.5 if layer.scale is None else layer.scale
    for rows in row_tiles(layer, quotient):
        attention = layer.weights(rows).to(quotient.dtype)
        s = quotient[:, :, rows]
        to_v += to_keys(attention, s, v)
        to_map = against(s, v).mul_(attention).mul_(0.5)
        scores = against(q[:, :, rows], k)
        to_scores = to_map
        if masked:
            to_scores = pointwise.restored(to_map, scores * scale)
            before += to_map.sum((1, 2, 3))
            after += to_scores.sum((1, 2, 3))
        s = divide(to_scores, scores)
        to_q[:, :, rows] = by_keys(s, k)
        to_k += to_keys(s, q[:, :, rows], k)
    shares = (to_q.mul_(q).mul_(0.5), to_k.mul_(k).mul_(0.5), to_v.mul_(v).mul_(0.5))
    return Shares(*shares, before, after) if masked else Shares(*shares)


def against(many: Tensor, few: Tensor) -> Tensor:
    """Multiply rows of query heads with the keys that they share, (batch, heads, rows, keys)."""
    return _by_head(many, few, few.mT)


def by_keys(tile: Tensor, few: Tensor) -> Tensor:
    """Multiply a tile with the keys that its heads share, (batch, heads, rows, width)."""
    return _by_head(tile, few, few)


def _by_head(many: Tensor, few: Tensor, factor: Tensor) -> Tensor:
    groups = many.shape[1] // few.shape[1]
    if groups == 1:
        return many @ factor
    batch, heads, rows = many.shape[:3]
    return (many.reshape(batch, heads // groups, groups * rows, -1) @ factor).reshape(
        batch, heads, rows, -1
    )


def to_keys(tile: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """Multiply a tile, transposed, with its rows; heads that share keys add up."""
    groups = tile.shape[1] // like.shape[1]
    if groups == 1:
        return tile.mT @ rows
    batch, heads, queries, keys = tile.shape
    grouped = tile.reshape(batch, heads // groups, groups * queries, keys)
    return grouped.mT @ rows.reshape(batch, heads // groups, groups * queries, -1)
