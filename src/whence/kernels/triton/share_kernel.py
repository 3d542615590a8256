"""Two Triton kernels that share the relevance of an attention's output between queries, keys and values.

Both build a tile of the map again from the logsumexp of its rows and hand relevance through it. One holds a
block of keys and runs over queries, the other a block of queries and runs over keys, as the backward pass
of flash attention does: no two programs write to one place, so that the result is the same every time.
"""

from functools import cache, partial
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from whence.kernels.maps import FactoredMaps, VisibleKeys
from whence.kernels.triton.launch import ensure_logsumexp, round_up_features
from whence.kernels.triton.pointwise_kernels import divide_stabilised
from whence.kernels.triton.tile import LOG2_E, launch_kernel

_UNBOUNDED = 1 << 30
# Up to this many queries, a search for those that carry relevance costs more than it saves.
_MAX_UNSEARCHED_QUERIES = 1024


def can_share(layer: FactoredMaps, quotient: Tensor) -> bool:
    """Return whether the kernels can share this layer's relevance."""
    return (
        layer.visible.is_banded
        and layer.bias is None
        and layer.softcap is None
        and layer.q.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and layer.q.dtype == layer.k.dtype == layer.v.dtype
        and quotient.dtype == torch.float32
        and max(layer.q.shape[-1], layer.v.shape[-1]) <= 256
    )


def share(
    layer: FactoredMaps, quotient: Tensor, *, signed: bool, masked: bool, size: float
) -> tuple[Tensor, ...]:
    """Return the relevance of queries, keys and values, and of the map around its mask if `masked`."""
    # The authors' rule for the sum with the mask is the identity up to 1e-9, below half precision.
    masked = masked and not signed and layer.q.dtype == torch.float32
    q, k, v = (_make_rows_contiguous(tensor) for tensor in (layer.q, layer.k, layer.v))
    batch, heads, queries, width = q.shape
    key_heads, keys, values = k.shape[1], k.shape[2], v.shape[3]
    active = (
        _build_full_range(queries, q.device)
        if queries <= _MAX_UNSEARCHED_QUERIES
        else _find_active_range(quotient)
    )
    precision = {torch.bfloat16: "ieee", torch.float16: "tf32", torch.float32: "tf32x3"}[q.dtype]
    if q.dtype == torch.float16:  # it may overflow where a denominator is small
        q, k, v = q.float(), k.float(), v.float()
    s = _make_rows_contiguous(quotient.to(q.dtype))
    lse = ensure_logsumexp(layer)[:, :, :queries].contiguous()
    new = partial(torch.empty, dtype=torch.float32, device=q.device)
    to_q = new((batch, queries, heads, width))
    to_k = new((batch, keys, heads, width))
    to_v = new((batch, keys, heads, values))
    sums = new((2, batch, heads * queries if masked else 1))
    visible: VisibleKeys = layer.visible
    visible_keys = q if visible.keys is None else visible.keys.to(torch.int8).contiguous()
    numbers = [
        *(tensor.stride(dim) for tensor in (q, k, v, s) for dim in range(3)),
        heads, heads // key_heads, queries, keys,
        _UNBOUNDED if visible.left is None else visible.left,
        _UNBOUNDED if visible.right is None else visible.right,
        float(width**-0.5 if layer.scale is None else layer.scale),
    ]  # fmt: skip
    wide, wide_values = round_up_features(width), round_up_features(values)
    sizes = (width, wide, values, wide_values)
    settings = (size, signed, masked, visible.keys is not None, precision)
    over_keys, over_queries = _select_block_sizes(q.dtype, max(wide, wide_values))
    inputs = (q, k, v, s, lse, visible_keys, active)
    launch_kernel(
        share_keys_kernel, (triton.cdiv(keys, over_keys.n), batch * heads, 1), (*inputs, to_k, to_v), numbers,
        (*sizes, over_keys.m, over_keys.n, *settings), num_warps=4, num_stages=over_keys.stages,
    )  # fmt: skip
    launch_kernel(
        share_queries_kernel, (triton.cdiv(queries, over_queries.m), batch * heads, 1), (*inputs, to_q, sums), numbers,
        (*sizes, over_queries.m, over_queries.n, *settings), num_warps=4, num_stages=over_queries.stages,
    )  # fmt: skip
    shares = (
        to_q.transpose(1, 2),
        _sum_shared_heads(to_k, key_heads),
        _sum_shared_heads(to_v, key_heads),
    )
    return (*shares, *sums.sum(-1)) if masked else shares


class _BlockSizes(NamedTuple):
    m: int  # queries
    n: int  # keys
    stages: int


def _select_block_sizes(dtype: torch.dtype, width: int) -> tuple[_BlockSizes, _BlockSizes]:
    """Return the block sizes of both kernels: smaller for wider rows."""
    if width <= 64 and dtype == torch.bfloat16:
        return _BlockSizes(64, 64, 3), _BlockSizes(64, 64, 3)
    small = 64 if width <= 64 else 32 if width <= 128 else 16
    return _BlockSizes(small, small, 1), _BlockSizes(small, small, 1)


def _sum_shared_heads(to_keys: Tensor, key_heads: int) -> Tensor:
    """Add up the shares of heads with common keys, (batch, keys, heads, width), and put heads first."""
    batch, keys, heads, width = to_keys.shape
    if heads != key_heads:
        to_keys = to_keys.view(batch, keys, key_heads, heads // key_heads, width).sum(3)
    return to_keys.transpose(1, 2)


def _find_active_range(quotient: Tensor) -> Tensor:
    """Return the range of queries that carry relevance, as a tensor, without a device sync."""
    carries = quotient.ne(0).flatten(0, 1).any(0).any(-1)
    place = torch.arange(len(carries), device=carries.device, dtype=torch.int32)
    first = torch.where(carries, place, len(carries)).amin()
    return torch.stack([first, torch.where(carries, place + 1, 0).amax()]).to(torch.int32)


@cache
def _build_full_range(queries: int, device: torch.device) -> Tensor:
    return torch.tensor([0, queries], dtype=torch.int32, device=device)


def _make_rows_contiguous(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


@triton.jit
def _apply_mask_rule(
    to_map, scores, scale, SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr
):
    """Pass the relevance of a map through the sum with its mask to the scores."""
    if SIGNED or not MASKED:
        return to_map
    scaled = scores * scale
    return divide_stabilised(to_map, scaled, SIZE, SIGNED) * scaled


@triton.jit
def _compute_tile(
    scores, products, lse, i, j, visible, left, right, scale,
    SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    """Return a tile's weights, twice its relevance before and after the mask, and that over the scores."""
    weight = tl.exp2(scores * (scale * LOG2_E) - lse * LOG2_E)
    if BANDED:
        weight = tl.where(visible & (j <= i + right) & (j >= i - left), weight, 0.0)
    to_map = weight * products
    to_scores = _apply_mask_rule(to_map, scores, scale, SIZE, SIGNED, MASKED)
    return weight, to_map, to_scores, divide_stabilised(to_scores, scores, SIZE, SIGNED)


@triton.jit
def _share_keys_block(
    start, k, v, to_k, to_v, Q, S, L, sqn, ssn, j, visible, queries, left, right, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, VALUES: tl.constexpr, DV: tl.constexpr, BM: tl.constexpr,
    SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    # A query beyond the last one is a row of zeros, which shares no relevance.
    i, d, dv = start + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, DV)
    row, at = (i < queries)[:, None], i[:, None].to(tl.int64)
    q = tl.load(Q + at * sqn + d[None, :], mask=row & (d < WIDTH)[None, :], other=0.0)
    s = tl.load(S + at * ssn + dv[None, :], mask=row & (dv < VALUES)[None, :], other=0.0)
    lse = tl.load(L + i, mask=i < queries, other=0.0)
    scores = tl.dot(k, tl.trans(q), input_precision=PRECISION)
    products = tl.dot(v, tl.trans(s), input_precision=PRECISION)
    weight, _, _, quotient = _compute_tile(
        scores, products, lse[None, :], i[None, :], j[:, None], visible[:, None], left, right, scale,
        SIZE, SIGNED, MASKED, BANDED,
    )  # fmt: skip
    to_v += tl.dot(weight.to(s.dtype), s, input_precision=PRECISION)
    to_k += tl.dot(quotient.to(q.dtype), q, input_precision=PRECISION)
    return to_k, to_v


@triton.jit
def share_keys_kernel(
    Q, K, V, S, L, Visible, Active, ToK, ToV,
    sqb, sqh, sqn, skb, skh, skn, svb, svh, svn, ssb, ssh, ssn,
    heads, groups, queries, keys, left, right, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, VALUES: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr,
    PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    block, bh = tl.program_id(0), tl.program_id(1)
    b, h = (bh // heads).to(tl.int64), (bh % heads).to(tl.int64)
    kh = h // groups
    low = block * BN
    j, d, dv = low + tl.arange(0, BN), tl.arange(0, D), tl.arange(0, DV)
    visible = j < keys
    if PADDED:
        visible = visible & (tl.load(Visible + b * keys + j, mask=visible, other=0) != 0)
    at = j[:, None].to(tl.int64)
    k_at, v_at = (
        b * skb + kh * skh + at * skn + d[None, :],
        b * svb + kh * svh + at * svn + dv[None, :],
    )
    k = tl.load(K + k_at, mask=visible[:, None] & (d < WIDTH)[None, :], other=0.0)
    v = tl.load(V + v_at, mask=visible[:, None] & (dv < VALUES)[None, :], other=0.0)
    to_k, to_v = tl.zeros([BN, D], tl.float32), tl.zeros([BN, DV], tl.float32)
    Q += b * sqb + h * sqh
    S += b * ssb + h * ssh
    L += bh.to(tl.int64) * queries
    first = tl.maximum(tl.maximum(tl.load(Active), low - right), 0) // BM * BM
    last = tl.minimum(tl.minimum(tl.load(Active + 1), queries), low + BN + left)
    # From `clear` to `until` every query sees all of these keys, and needs no mask.
    clear = tl.maximum((tl.maximum(low + BN - 1 - right, 0) + BM - 1) // BM * BM, first)
    until = tl.minimum(queries, low + left + 1) // BM * BM
    if PADDED:
        until = clear
    until = tl.where(low + BN <= keys, until, clear)
    for start in range(first, tl.minimum(clear, last), BM):
        to_k, to_v = _share_keys_block(
            start, k, v, to_k, to_v, Q, S, L, sqn, ssn, j, visible, queries, left, right, scale,
            WIDTH, D, VALUES, DV, BM, SIZE, SIGNED, MASKED, PRECISION, True,
        )  # fmt: skip
    for start in range(clear, tl.minimum(until, last), BM):
        to_k, to_v = _share_keys_block(
            start, k, v, to_k, to_v, Q, S, L, sqn, ssn, j, visible, queries, left, right, scale,
            WIDTH, D, VALUES, DV, BM, SIZE, SIGNED, MASKED, PRECISION, False,
        )  # fmt: skip
    for start in range(tl.maximum(clear, until), last, BM):
        to_k, to_v = _share_keys_block(
            start, k, v, to_k, to_v, Q, S, L, sqn, ssn, j, visible, queries, left, right, scale,
            WIDTH, D, VALUES, DV, BM, SIZE, SIGNED, MASKED, PRECISION, True,
        )  # fmt: skip
    # The map gets half of the output's relevance, and the keys half of the map's: a quarter. The values
    # get the other half of the output's.
    to_k = to_k * k.to(tl.float32) * 0.25
    to_v = to_v * v.to(tl.float32) * 0.5
    # A token's heads are adjacent in memory, the layout of the neighbouring operations.
    base = (b * keys + at) * heads + h
    tl.store(ToK + base * WIDTH + d[None, :], to_k, mask=(j < keys)[:, None] & (d < WIDTH)[None, :])
    tl.store(
        ToV + base * VALUES + dv[None, :], to_v, mask=(j < keys)[:, None] & (dv < VALUES)[None, :]
    )


@triton.jit
def _share_queries_block(
    start, q, s, lse, to_q, before, after, K, V, Visible, skn, svn, i, keys, left, right, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, VALUES: tl.constexpr, DV: tl.constexpr, BN: tl.constexpr,
    SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr,
    PRECISION: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    j, d, dv = start + tl.arange(0, BN), tl.arange(0, D), tl.arange(0, DV)
    visible, at = j < keys, j[:, None].to(tl.int64)
    if PADDED:
        visible = visible & (tl.load(Visible + j, mask=visible, other=0) != 0)
    k = tl.load(K + at * skn + d[None, :], mask=visible[:, None] & (d < WIDTH)[None, :], other=0.0)
    v = tl.load(
        V + at * svn + dv[None, :], mask=visible[:, None] & (dv < VALUES)[None, :], other=0.0
    )
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    products = tl.dot(s, tl.trans(v), input_precision=PRECISION)
    _, to_map, to_scores, quotient = _compute_tile(
        scores, products, lse[:, None], i[:, None], j[None, :], visible[None, :], left, right, scale,
        SIZE, SIGNED, MASKED, BANDED,
    )  # fmt: skip
    to_q += tl.dot(quotient.to(k.dtype), k, input_precision=PRECISION)
    if MASKED and not SIGNED:
        before += tl.sum(to_map, 1)
        after += tl.sum(to_scores, 1)
    return to_q, before, after


@triton.jit
def share_queries_kernel(
    Q, K, V, S, L, Visible, Active, ToQ, Sums,
    sqb, sqh, sqn, skb, skh, skn, svb, svh, svn, ssb, ssh, ssn,
    heads, groups, queries, keys, left, right, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, VALUES: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr,
    PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # The last queries of a causal model see most keys, so they start first.
    block, bh = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    b, h = (bh // heads).to(tl.int64), (bh % heads).to(tl.int64)
    kh = h // groups
    low = block * BM
    i, d, dv = low + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, DV)
    row, at = (i < queries)[:, None], i[:, None].to(tl.int64)
    q = tl.load(
        Q + b * sqb + h * sqh + at * sqn + d[None, :], mask=row & (d < WIDTH)[None, :], other=0.0
    )
    s = tl.load(
        S + b * ssb + h * ssh + at * ssn + dv[None, :], mask=row & (dv < VALUES)[None, :], other=0.0
    )
    lse = tl.load(L + bh.to(tl.int64) * queries + i, mask=i < queries, other=0.0)
    K += b * skb + kh * skh
    V += b * svb + kh * svh
    if PADDED:
        Visible += b * keys
    to_q = tl.zeros([BM, D], tl.float32)
    before, after = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    first = tl.maximum(low - left, 0) // BN * BN
    last = tl.minimum(keys, low + BM + right)
    # A block of queries without relevance is skipped.
    idle = (low >= tl.load(Active + 1)) | (low + BM <= tl.load(Active))
    last = tl.where(idle, first, last)
    # From `clear` to `until` all of these queries see every key.
    clear = tl.maximum((tl.maximum(low + BM - 1 - left, 0) + BN - 1) // BN * BN, first)
    until = tl.minimum(keys, low + right + 1) // BN * BN
    if PADDED:
        until = clear
    for start in range(first, tl.minimum(clear, last), BN):
        to_q, before, after = _share_queries_block(
            start, q, s, lse, to_q, before, after, K, V, Visible, skn, svn, i, keys, left, right, scale,
            WIDTH, D, VALUES, DV, BN, SIZE, SIGNED, MASKED, PADDED, PRECISION, True,
        )  # fmt: skip
    for start in range(clear, tl.minimum(until, last), BN):
        to_q, before, after = _share_queries_block(
            start, q, s, lse, to_q, before, after, K, V, Visible, skn, svn, i, keys, left, right, scale,
            WIDTH, D, VALUES, DV, BN, SIZE, SIGNED, MASKED, PADDED, PRECISION, False,
        )  # fmt: skip
    for start in range(tl.maximum(clear, until), last, BN):
        to_q, before, after = _share_queries_block(
            start, q, s, lse, to_q, before, after, K, V, Visible, skn, svn, i, keys, left, right, scale,
            WIDTH, D, VALUES, DV, BN, SIZE, SIGNED, MASKED, PADDED, PRECISION, True,
        )  # fmt: skip
    # The map gets half of the output's relevance, and the queries half of the map's: a quarter.
    to_q = to_q * q.to(tl.float32) * 0.25
    base = (b * queries + at) * heads + h
    tl.store(ToQ + base * WIDTH + d[None, :], to_q, mask=row & (d < WIDTH)[None, :])
    if MASKED and not SIGNED:
        tl.store(Sums + bh.to(tl.int64) * queries + i, before * 0.5, mask=i < queries)
        tl.store(
            Sums + (tl.num_programs(1) + bh).to(tl.int64) * queries + i,
            after * 0.5,
            mask=i < queries,
        )
