"""Relevance shared by attention, linear layers (z+) and sums among their inputs, with stabilised division.

With O = A V and S = R_O / O, the values get Aᵀ S and the map R_A = A ∘ (S Vᵀ) / 2. It goes through the
softmax as it is, and half of it each to queries and keys, in proportion to their products.

The z+ rule of linear layers runs in bfloat16 without loss of digits. Inputs and weights of a bfloat16 model
are exact, so the matrix units multiply them exactly and add up in float32. Relevance is not: it is split
into a part that bfloat16 holds and the remainder, 16 bits of mantissa together, which is far more than the
model's own values have.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whence.kernels.contract import can_fuse_pointwise, may_fuse
from whence.kernels.maps import FactoredMaps, compute_scale, multiply_by_head
from whence.kernels.tiled import iterate_row_tiles

CHEFER_EPSILON = 1e-9  # added to every denominator by Chefer et al.


def select_stabiliser_size(is_signed: bool, like: Tensor) -> float:
    """Return the stabiliser's size: the amount by which a denominator is moved."""
    # A sum of terms around 1 is noise below eight units of its rounding.
    return 8 * torch.finfo(like.dtype).eps if is_signed else CHEFER_EPSILON


def divide(numerator: Tensor, denominator: Tensor, *, signed: bool, back: bool = False) -> Tensor:
    """Divide by a denominator moved away from zero; with `back`, multiply with the denominator again.

    It is moved to its own side, by 8 eps of the numerator's dtype, if `signed`. Otherwise as Chefer et al. do:
    1e-9 is added whatever the sign, and a division by zero gives zero.
    """
    if can_fuse_pointwise(numerator, denominator):
        return _run_divide_kernel([numerator], denominator, signed=signed, back=back)
    size, below = select_stabiliser_size(signed, numerator), denominator.to(numerator.dtype)
    if signed:
        quotient = numerator / torch.where(below < 0, below - size, below + size)
    elif is_far_from_zero(below, 2 * size):
        quotient = numerator / (below + size)
    else:
        moved = below + size
        moved.masked_fill_(moved == 0, size)
        quotient = (numerator / moved).masked_fill_(below == 0, 0)
    return quotient * denominator if back else quotient


def divide_sum_and_multiply_back(parts: Sequence[Tensor], value: Tensor) -> Tensor:
    """Add up the relevance of several copies, then divide by the value, unsigned, and multiply with it again."""
    if len(parts) in (2, 3) and can_fuse_pointwise(*parts, value):
        return _run_divide_kernel(parts, value, signed=False, back=True)
    return divide(add_parts(parts), value, signed=False, back=True)


def add_parts(parts: Sequence[Tensor], value: Tensor | None = None) -> Tensor:
    """Add up two or more tensors; `value` is unused, and makes the signature that of a stabiliser."""
    total = parts[0] + parts[1]
    for part in parts[2:]:
        total += part
    return total


def share_sum_normalised(
    u: Tensor, v: Tensor, y: Tensor, relevance: Tensor, samples: int, *, is_signed: bool
) -> tuple[Tensor, Tensor] | None:
    """Share relevance of y = u + v between u and v, rescaled to absolute totals, for each sample.

    None where no Triton kernel can do it, in two passes over memory.
    """
    if relevance.dtype != torch.float32 or not can_fuse_pointwise(relevance, u, v, y):
        return None
    size = select_stabiliser_size(is_signed, relevance)
    shares: tuple[Tensor, Tensor] = _load_pointwise_kernels().share_sum_normalised(
        u, v, y, relevance, samples, signed=is_signed, size=size
    )
    return shares


def is_far_from_zero(tensor: Tensor, least: float) -> bool:
    """Return whether all entries are farther from zero than `least`; False off the CPU (no sync).

    Element-wise comparison takes a CPU ten times as long as division; a minimum is fast.
    """
    if tensor.device.type != "cpu" or not tensor.numel():
        return False
    return bool(tensor.abs().min() > least)


def _run_divide_kernel(
    parts: Sequence[Tensor], denominator: Tensor, *, signed: bool, back: bool
) -> Tensor:
    size = select_stabiliser_size(signed, parts[0])
    quotient: Tensor = _load_pointwise_kernels().divide_parts(
        parts, denominator, signed=signed, size=size, back=back
    )
    return quotient


@cache
def _load_pointwise_kernels() -> Any:
    from whence.kernels.triton import pointwise_kernels

    return pointwise_kernels


def can_multiply_in_bfloat16(x: Tensor, weight: Tensor) -> bool:
    """Return whether a layer's products can run in half precision: bfloat16 on CUDA.

    float16 cannot hold quotients of relevance, which may be large.
    """
    return x.is_cuda and x.dtype == weight.dtype == torch.bfloat16


@dataclass(eq=False)
class LastSplitInput:
    """Cache of the last input split by sign: queries, keys and values are made of one input.

    One propagation has one cache. The input is compared by identity, so it must not be written into
    meanwhile; the values of a tape never are.
    """

    _input: Tensor | None = None
    _parts: Tensor | None = None

    def split_by_sign(self, x: Tensor) -> Tensor:
        """Return the positive part beside the negative part, (rows, twice the features)."""
        if self._input is not x or self._parts is None:
            self._input = self._parts = None  # freed first, so that there are never two in memory
            self._input, self._parts = x, _split_by_sign(x.flatten(0, -2))
        return self._parts


def compute_z_plus(
    relevance: Tensor,
    x: Tensor,
    weight: Tensor,
    *,
    signed: bool,
    lately: LastSplitInput | None = None,
) -> Tensor:
    """Return x⁺ ∘ (S w⁺ᵀ) + x⁻ ∘ (S w⁻ᵀ) with S = R / (x⁺w⁺ + x⁻w⁻), (..., inputs).

    Weights are (inputs, outputs). Positive and negative weights are concatenated, and so are both
    parts of a quotient: two products of twice the depth replace six, and their terms are never
    written to memory.
    """
    outputs = weight.shape[1]
    signs = _split_by_sign(weight.T, copies=2)
    total = _multiply_in_float32((lately or LastSplitInput()).split_by_sign(x), signs[:outputs].T)
    split = _split_quotient(relevance.reshape(total.shape), total, x.dtype, signed=signed)
    return _multiply_by_matching_sign(x, _multiply_in_float32(split, signs))


def multiply_by_transposed_weight(quotient: Tensor, weight: Tensor) -> Tensor:
    """Return S wᵀ for a quotient in float32 or wider and weights (inputs, outputs): (..., inputs)."""
    half = quotient.is_cuda and weight.dtype == torch.bfloat16
    if not half or quotient.dtype != torch.float32:
        return quotient @ weight.to(quotient.dtype).T
    flat = quotient.flatten(0, -2)
    first = flat.to(weight.dtype)
    split = torch.cat([first, (flat - first).to(weight.dtype)], 1)
    product = _multiply_in_float32(split, torch.cat([weight.T, weight.T]))
    return product.reshape(*quotient.shape[:-1], -1)


def _multiply_in_float32(left: Tensor, right: Tensor) -> Tensor:
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def _split_by_sign(matrix: Tensor, copies: int = 1) -> Tensor:
    """Return the positive part beside the negative part, with `copies` of that below each other."""
    if can_fuse_pointwise(matrix):
        parts: Tensor = _load_pointwise_kernels().split_by_sign(matrix, copies)
        return parts
    return torch.cat([matrix.clamp(min=0), matrix.clamp(max=0)], 1).repeat(copies, 1)


def _split_quotient(
    relevance: Tensor, total: Tensor, dtype: torch.dtype, *, signed: bool
) -> Tensor:
    """Return a quotient in half precision beside its remainder, also in half precision."""
    if can_fuse_pointwise(relevance, total):
        size = select_stabiliser_size(signed, total)
        parts: Tensor = _load_pointwise_kernels().split_quotient(
            relevance, total, dtype, signed, size
        )
        return parts
    quotient = divide(relevance, total, signed=signed)
    first = quotient.to(dtype)
    return torch.cat([first, (quotient - first).to(dtype)], 1)


def _multiply_by_matching_sign(x: Tensor, both: Tensor) -> Tensor:
    """Return x times the left half of `both` where x is positive, the right half elsewhere."""
    if can_fuse_pointwise(x):
        product: Tensor = _load_pointwise_kernels().multiply_by_matching_sign(x, both)
        return product
    up, down = both.chunk(2, 1)
    return torch.where(x > 0, up.reshape(x.shape), down.reshape(x.shape)) * x


class AttentionShares(NamedTuple):
    """The relevance of queries, keys and values, and of the map before and after its mask, (batch,).

    The last two are None where the mask has no rule of its own.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    before: Tensor | None = None
    after: Tensor | None = None


@torch.no_grad()
def share_relevance(
    layer: FactoredMaps, quotient: Tensor, *, signed: bool, masked: bool
) -> AttentionShares:
    """Share the relevance of an attention's output among queries, keys and values.

    `quotient` is relevance over value, (batch, heads, queries, width). `masked` applies the authors' rule for
    sums to the mask, which makes a difference with the unsigned division only.
    """
    if may_fuse(quotient):
        from whence.kernels.triton import share_kernel

        if share_kernel.can_share(layer, quotient):
            size = select_stabiliser_size(signed, quotient)
            return AttentionShares(
                *share_kernel.share(layer, quotient, signed=signed, masked=masked, size=size)
            )
    return _share_by_tiles(layer, quotient, signed=signed, masked=masked)


def _share_by_tiles(
    layer: FactoredMaps, quotient: Tensor, *, signed: bool, masked: bool
) -> AttentionShares:
    q, k, v = (tensor.to(quotient.dtype) for tensor in (layer.q, layer.k, layer.v))
    layer = copy(layer)
    layer.q, layer.k, layer.v = q, k, v
    to_q, to_k, to_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    masked = masked and not signed
    before, after = q.new_zeros(len(q)), q.new_zeros(len(q))
    scale = compute_scale(layer)
    for rows in iterate_row_tiles(layer, quotient):
        attention = layer.weights(rows).to(quotient.dtype)
        s = quotient[:, :, rows]
        to_v += multiply_tile_transposed(attention, s, v)
        to_map = multiply_by_head(s, v.mT).mul_(attention).mul_(0.5)
        scores = multiply_by_head(q[:, :, rows], k.mT)
        to_scores = to_map
        if masked:
            to_scores = divide(to_map, scores * scale, signed=False, back=True)
            before += to_map.sum((1, 2, 3))
            after += to_scores.sum((1, 2, 3))
        s = divide(to_scores, scores, signed=signed)
        to_q[:, :, rows] = multiply_by_head(s, k)
        to_k += multiply_tile_transposed(s, q[:, :, rows], k)
    shares = (to_q.mul_(q).mul_(0.5), to_k.mul_(k).mul_(0.5), to_v.mul_(v).mul_(0.5))
    return AttentionShares(*shares, before, after) if masked else AttentionShares(*shares)


def multiply_tile_transposed(tile: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """Multiply a transposed tile with its rows, summed over heads that share keys."""
    groups = tile.shape[1] // like.shape[1]
    if groups == 1:
        return tile.mT @ rows
    batch, heads, queries, keys = tile.shape
    grouped = tile.reshape(batch, heads // groups, groups * queries, keys)
    return grouped.mT @ rows.reshape(batch, heads // groups, groups * queries, -1)
