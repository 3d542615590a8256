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


"""Division that does not blow up, number by number: in as few passes over memory as the device allows.

What is divided by may be of half precision; the result is as wide as what is divided.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from whence.kernels.able import fuses_pointwise

PAPER = 1e-9  # what Chefer et al. add to whatever they divide by


def size(is_signed: bool, like: Tensor) -> float:
    """Return by how much a denominator is moved."""
    # Below eight units of its own rounding a sum of terms around one is noise.
    return 8 * torch.finfo(like.dtype).eps if is_signed else PAPER


def signed(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide by a denominator that is moved away from zero, on the side where it is, by what its dtype resolves."""
    if fuses_pointwise(numerator, denominator):
        return _fused([numerator], denominator, is_signed=True)
    by, denominator = size(True, numerator), denominator.to(numerator.dtype)
    return numerator / torch.where(denominator < 0, denominator - by, denominator + by)


def signed_restored(numerator: Tensor, value: Tensor) -> Tensor:
    """Divide in that way, and multiply with what was divided by again."""
    if fuses_pointwise(numerator, value):
        return _fused([numerator], value, is_signed=True, back=True)
    return signed(numerator, value) * value


def unsigned(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide as Chefer et al. do: 1e-9 is added whatever the sign, and over zero is zero."""
    if fuses_pointwise(numerator, denominator):
        return _fused([numerator], denominator, is_signed=False)
    denominator = denominator.to(numerator.dtype)
    moved = denominator + PAPER
    if all_beyond(denominator, 2 * PAPER):
        return numerator / moved
    moved.masked_fill_(moved == 0, PAPER)
    return (numerator / moved).masked_fill_(denominator == 0, 0)


def restored(numerator: Tensor, value: Tensor) -> Tensor:
    """Divide by a value as Chefer et al. do, and multiply with it again: nearly what was there."""
    if fuses_pointwise(numerator, value):
        return _fused([numerator], value, is_signed=False, back=True)
    return unsigned(numerator, value) * value


def restored_sum(parts: Sequence[Tensor], value: Tensor) -> Tensor:
    """Add up what several copies of a value hand back, and do that with the sum."""
    if len(parts) in (2, 3) and fuses_pointwise(*parts, value):
        return _fused(parts, value, is_signed=False, back=True)
    return restored(plain_sum(parts), value)


def plain_sum(parts: Sequence[Tensor], value: Tensor | None = None) -> Tensor:
    """Add up two or more tensors; the value that they belong to does not matter."""
    total = parts[0] + parts[1]
    for part in parts[2:]:
        total += part
    return total


def normalised(
    u: Tensor, v: Tensor, y: Tensor, relevance: Tensor, samples: int, *, is_signed: bool
) -> tuple[Tensor, Tensor] | None:
    """Share relevance of y = u + v between both, rescaled to totals that are positive, for each sample.

    None where no kernel does it in two passes.
    """
    if relevance.dtype != torch.float32 or not fuses_pointwise(relevance, u, v, y):
        return None
    by = size(is_signed, relevance)
    made: tuple[Tensor, Tensor] = _kernels().normalised(
        u, v, y, relevance, samples, signed=is_signed, size=by
    )
    return made


def all_beyond(tensor: Tensor, least: float) -> bool:
    """Say whether all of a tensor is farther from zero than that; on a device that would be waited for: no.

    Comparing number by number takes a CPU ten times as long as dividing does; the smallest of all is found at once.
    """
    if tensor.device.type != "cpu" or not tensor.numel():
        return False
    return bool(tensor.abs().min() > least)


def _fused(
    parts: Sequence[Tensor], denominator: Tensor, *, is_signed: bool, back: bool = False
) -> Tensor:
    by = size(is_signed, parts[0])
    made: Tensor = _kernels().divide(parts, denominator, signed=is_signed, size=by, back=back)
    return made


@cache
def _kernels() -> Any:
    from whence.kernels.fused import pointwise

    return pointwise


"""z+ in half precision that loses no digits: what a linear layer's rule of relevance multiplies.

Inputs and weights of a model in bfloat16 are what they are, so the matrix units multiply them exactly and add up in
float32. Relevance is not: it is split into a part that bfloat16 holds and what is left over, 16 bits of mantissa
together, which is more than the model's own values have by far.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from whence.kernels import pointwise
from whence.kernels.able import fuses_pointwise


def narrow(x: Tensor, weight: Tensor) -> bool:
    """Say whether a layer's products can run in half precision: bfloat16 on CUDA.

    float16 cannot hold relevance over sums, which may be large.
    """
    return x.is_cuda and x.dtype == weight.dtype == torch.bfloat16


class Lately:
    """The input that was taken apart last: queries, keys and values are made of one input. One walk has one of these.

    It is told by identity, so that nobody may write into it meanwhile; the values of a tape stay as they are.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._of: Tensor | None = None
        self._parted: Tensor | None = None

    def parted(self, x: Tensor) -> Tensor:
        """Return what is positive beside what is negative, (rows, twice the features)."""
        if self._of is not x or self._parted is None:
            self._of = self._parted = None  # first, so that there are never two
            self._of, self._parted = x, _parted(x.flatten(0, -2))
        return self._parted


def agreeing(
    relevance: Tensor, x: Tensor, weight: Tensor, *, signed: bool, lately: Lately | None = None
) -> Tensor:
    """Return x⁺ ∘ (S w⁺ᵀ) + x⁻ ∘ (S w⁻ᵀ) with S = R / (x⁺w⁺ + x⁻w⁻), (..., inputs), for weights (inputs, outputs).

    Positive and negative weights stand side by side, and so do both parts of a quotient: two products of twice the
    depth stand for six, and what is added up in them is never written.
    """
    outputs = weight.shape[1]
    signs = _parted(weight.T, copies=2)
    agreed = _wide_product((lately or Lately()).parted(x), signs[:outputs].T)
    split = _split_quotient(relevance.reshape(agreed.shape), agreed, x.dtype, signed=signed)
    return _chosen(x, _wide_product(split, signs))


def back(quotient: Tensor, weight: Tensor) -> Tensor:
    """Return S wᵀ for a quotient in float32 or wider and weights (inputs, outputs): (..., inputs)."""
    half = quotient.is_cuda and weight.dtype == torch.bfloat16
    if not half or quotient.dtype != torch.float32:
        return quotient @ weight.to(quotient.dtype).T
    flat = quotient.flatten(0, -2)
    first = flat.to(weight.dtype)
    split = torch.cat([first, (flat - first).to(weight.dtype)], 1)
    made = _wide_product(split, torch.cat([weight.T, weight.T]))
    return made.reshape(*quotient.shape[:-1], -1)


def _wide_product(left: Tensor, right: Tensor) -> Tensor:
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def _parted(matrix: Tensor, copies: int = 1) -> Tensor:
    """Return what is positive beside what is negative, as often as it is asked for below each other."""
    if fuses_pointwise(matrix):
        made: Tensor = _fused().parted(matrix, copies)
        return made
    return torch.cat([matrix.clamp(min=0), matrix.clamp(max=0)], 1).repeat(copies, 1)


def _split_quotient(
    relevance: Tensor, total: Tensor, dtype: torch.dtype, *, signed: bool
) -> Tensor:
    """Return a quotient as two numbers of half precision, the second what the first leaves over, side by side."""
    if fuses_pointwise(relevance, total):
        by = pointwise.size(signed, total)
        made: Tensor = _fused().split_quotient(relevance, total, dtype, signed, by)
        return made
    quotient = (pointwise.signed if signed else pointwise.unsigned)(relevance, total)
    first = quotient.to(dtype)
    return torch.cat([first, (quotient - first).to(dtype)], 1)


def _chosen(x: Tensor, both: Tensor) -> Tensor:
    """Return x times the one that goes with its sign, of two that stand side by side."""
    if fuses_pointwise(x):
        made: Tensor = _fused().chosen(x, both)
        return made
    up, down = both.chunk(2, 1)
    return torch.where(x > 0, up.reshape(x.shape), down.reshape(x.shape)) * x


@cache
def _fused() -> Any:
    from whence.kernels.fused import signs

    return signs
