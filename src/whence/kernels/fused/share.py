"""Relevance of an attention's output shared between queries, keys and values, without its map: two kernels.

Both build a tile of the map again from the logsumexp of its rows and hand relevance through it. One holds a block of
keys and runs over queries, the other a block of queries and runs over keys, as the backward pass of flash attention
does: no two programs write to one place, so that the result is the same every time.
"""

from functools import cache, partial
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from whence.kernels.fused.launch import logsumexp_of
from whence.kernels.fused.sharing import keys_kernel, queries_kernel
from whence.kernels.fused.starting import start
from whence.kernels.maps import Parts
from whence.kernels.visible import Visible

_FAR = 1 << 30
_SHORT = 1024  # queries; looking for those that carry something costs more than it saves


def takes(layer: Parts, quotient: Tensor) -> bool:
    """Say whether the kernels can share this layer's relevance."""
    return (
        layer.visible.banded
        and layer.bias is None
        and layer.softcap is None
        and layer.q.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and layer.q.dtype == layer.k.dtype == layer.v.dtype
        and quotient.dtype == torch.float32
        and max(layer.q.shape[-1], layer.v.shape[-1]) <= 256
    )


def share(
    layer: Parts, quotient: Tensor, *, signed: bool, masked: bool, size: float
) -> tuple[Tensor, ...]:
    """Return what queries, keys and values get, and, if that counts, what the map carries around its mask."""
    # The authors' rule for the sum with the mask is the identity but for 1e-9: half precision resolves no such thing.
    masked = masked and not signed and layer.q.dtype == torch.float32
    q, k, v = (_rows_last(one) for one in (layer.q, layer.k, layer.v))
    batch, heads, queries, width = q.shape
    key_heads, keys, values = k.shape[1], k.shape[2], v.shape[3]
    active = _everyone(queries, q.device) if queries <= _SHORT else _active(quotient)
    precision = {torch.bfloat16: "ieee", torch.float16: "tf32", torch.float32: "tf32x3"}[q.dtype]
    if q.dtype == torch.float16:  # which may be too small for what is divided by little
        q, k, v = q.float(), k.float(), v.float()
    s = _rows_last(quotient.to(q.dtype))
    lse = logsumexp_of(layer)[:, :, :queries].contiguous()
    new = partial(torch.empty, dtype=torch.float32, device=q.device)
    to_q = new((batch, queries, heads, width))
    to_k = new((batch, keys, heads, width))
    to_v = new((batch, keys, heads, values))
    sums = new((2, batch, heads * queries if masked else 1))
    visible: Visible = layer.visible
    seen = q if visible.keys is None else visible.keys.to(torch.int8).contiguous()
    numbers = [
        *(one.stride(dim) for one in (q, k, v, s) for dim in range(3)),
        heads, heads // key_heads, queries, keys,
        _FAR if visible.left is None else visible.left,
        _FAR if visible.right is None else visible.right,
        float(width**-0.5 if layer.scale is None else layer.scale),
    ]  # fmt: skip
    wide, wide_values = _padded(width), _padded(values)
    sizes = (width, wide, values, wide_values)
    manner = (size, signed, masked, visible.keys is not None, precision)
    over_keys, over_queries = _shapes(q.dtype, max(wide, wide_values))
    given = (q, k, v, s, lse, seen, active)
    start(
        keys_kernel, (triton.cdiv(keys, over_keys.n), batch * heads, 1), (*given, to_k, to_v), numbers,
        (*sizes, over_keys.m, over_keys.n, *manner), num_warps=4, num_stages=over_keys.stages,
    )  # fmt: skip
    start(
        queries_kernel, (triton.cdiv(queries, over_queries.m), batch * heads, 1), (*given, to_q, sums), numbers,
        (*sizes, over_queries.m, over_queries.n, *manner), num_warps=4, num_stages=over_queries.stages,
    )  # fmt: skip
    shares = (to_q.transpose(1, 2), _grouped(to_k, key_heads), _grouped(to_v, key_heads))
    return (*shares, *sums.sum(-1)) if masked else shares


class _Blocks(NamedTuple):
    m: int  # queries
    n: int  # keys
    stages: int


def _shapes(dtype: torch.dtype, width: int) -> tuple[_Blocks, _Blocks]:
    """Return the blocks of both kernels: smaller where a row takes more room."""
    if width <= 64 and dtype == torch.bfloat16:
        return _Blocks(64, 64, 3), _Blocks(64, 64, 3)
    small = 64 if width <= 64 else 32 if width <= 128 else 16
    return _Blocks(small, small, 1), _Blocks(small, small, 1)


def _grouped(to_keys: Tensor, key_heads: int) -> Tensor:
    """Add up what heads that share keys hand to them, (batch, keys, heads, width), and put heads first."""
    batch, keys, heads, width = to_keys.shape
    if heads != key_heads:
        to_keys = to_keys.view(batch, keys, key_heads, heads // key_heads, width).sum(3)
    return to_keys.transpose(1, 2)


def _active(quotient: Tensor) -> Tensor:
    """Return the first query that carries anything, and the one after the last, without waiting for the device."""
    carries = quotient.ne(0).flatten(0, 1).any(0).any(-1)
    place = torch.arange(len(carries), device=carries.device, dtype=torch.int32)
    first = torch.where(carries, place, len(carries)).amin()
    return torch.stack([first, torch.where(carries, place + 1, 0).amax()]).to(torch.int32)


@cache
def _everyone(queries: int, device: torch.device) -> Tensor:
    return torch.tensor([0, queries], dtype=torch.int32, device=device)


def _rows_last(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _padded(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())
