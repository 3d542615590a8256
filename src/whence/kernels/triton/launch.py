"""From a layer to a kernel: what is handed over, and what comes back."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from whence.kernels.fused.contract import contract_kernel
from whence.kernels.fused.gather import gather_kernel
from whence.kernels.fused.logsumexp import logsumexp_kernel
from whence.kernels.fused.settings import contracting, gathering
from whence.kernels.fused.starting import start
from whence.kernels.maps import Combination, Maps, Parts, gradient_of

_INTERPRETED = bool(triton.knobs.runtime.interpret)
_LEAST = 16  # features that a matrix unit multiplies at a time


def contract(layer: Maps, row: Tensor, combination: Combination, quotient: Tensor | None) -> Tensor:
    """Return row · mean over heads of f(A, dL/dA, R), (batch, keys), for a row of (batch, queries)."""
    with _on(row.device):
        return _contract(_operands(cast(Parts, layer), combination, quotient), row)


def gather(
    layer: Maps, columns: Tensor, combination: Combination, quotient: Tensor | None
) -> Tensor:
    """Return mean over heads of f(A, dL/dA, R) · columns, (batch, queries, 1), for columns of (batch, keys, 1)."""
    with _on(columns.device):
        return _gather(_operands(cast(Parts, layer), combination, quotient), columns)[:, :, None]


def contract_normalised(
    layer: Maps, row: Tensor, combination: Combination, quotient: Tensor | None
) -> Tensor:
    """Return row · M, where M is I + mean over heads of f(A, dL/dA, R), each of its rows divided by its sum."""
    with _on(row.device):
        one = _operands(cast(Parts, layer), combination, quotient)
        sums = _gather(one, torch.ones_like(row), row)
        shared = torch.where(row != 0, row / (1 + sums), row)
        return shared + _contract(one, shared)


def _contract(one: "_Operands", row: Tensor) -> Tensor:
    batch, heads, queries, keys = one.shape
    block = contracting(one.features, one.size, one.relevance)
    out = torch.empty(batch, heads, keys, dtype=one.work, device=row.device)
    start(
        contract_kernel,
        (batch * heads * triton.cdiv(keys, block.keys), 1, 1),
        (*one.tensors, one.logsumexp, row.contiguous(), one.real, out),
        (*one.strides, queries, keys, queries, keys),
        (*one.constants, block.keys, block.queries),
        num_warps=block.warps,
        num_stages=block.stages,
    )
    return out.sum(1).to(row.dtype)


def _gather(one: "_Operands", columns: Tensor, row: Tensor | None = None) -> Tensor:
    """Gather one column; with a row, no block of queries is worked on in which it is zero."""
    batch, heads, queries, keys = one.shape
    block = gathering(one.features, one.size, one.relevance)
    out = torch.empty(batch, heads, queries, dtype=one.work, device=columns.device)
    start(
        gather_kernel,
        (batch * heads * triton.cdiv(queries, block.queries), 1, 1),
        (*one.tensors, one.logsumexp, columns.contiguous(), one.real,
         None if row is None else row.contiguous(), out),
        (*one.strides, keys, keys, queries, queries, keys),
        (*one.constants, block.keys, block.queries),
        num_warps=block.warps,
        num_stages=block.stages,
    )  # fmt: skip
    return out.sum(1).to(columns.dtype)


class _Operands(NamedTuple):
    """What the kernels need of a layer."""

    tensors: tuple[Tensor | None, ...]  # q, k, v, the gradient, and the quotient in one part or two
    strides: tuple[int, ...]
    constants: tuple[Any, ...]
    logsumexp: Tensor
    real: Tensor | None
    shape: tuple[int, int, int, int]  # batch, heads, queries, keys
    features: int
    size: int  # bytes of a number, of the largest that are multiplied
    relevance: bool
    work: torch.dtype


def _operands(layer: Parts, combination: Combination, quotient: Tensor | None) -> _Operands:
    q, k, v = (_lined(one) for one in (layer.q, layer.k, layer.v))
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    grad = share = rest = None
    if "gradient" in combination:
        grad = _lined(gradient_of(layer).to(v.dtype))
    if "relevance" in combination:
        share = _lined(cast(Tensor, quotient).to(work))
        if v.dtype == torch.bfloat16:
            share, rest = _split(share)
    visible, shape = layer.visible, (*q.shape[:3], k.shape[2])
    real = None if visible.keys is None else visible.keys.contiguous()
    width, value_width = q.shape[3], v.shape[3]
    features, value_features = _block_of(width), _block_of(value_width)
    sums = logsumexp_of(layer)
    main = (q, k, v, grad, share)
    strides = [step for one in main for step in ((0, 0, 0) if one is None else one.stride()[:3])]
    constants = (
        shape[1], shape[1] // k.shape[1], width, features, value_width, value_features,
        _scale(layer), layer.softcap, visible.left, visible.right, combination != "gradient_x_attention",
        _TYPES[work], *_PRECISIONS[q.dtype],
    )  # fmt: skip
    return _Operands(
        (*main, rest),
        (*strides, *sums.stride()[:2]),
        constants,
        sums,
        real,
        shape,
        max(features, value_features),
        q.element_size() if share is None else share.element_size(),
        share is not None,
        work,
    )


def _split(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return two bfloat16 of which the sum is a float32 but for 2^-17 of it."""
    high = values.to(torch.bfloat16)
    return high, torch.empty_like(high).copy_(values - high)  # laid out alike


def logsumexp_of(layer: Parts) -> Tensor:
    """Return what the forward pass left, (batch, heads, queries); else compute it, once."""
    work = torch.float64 if layer.q.dtype == torch.float64 else torch.float32
    found = layer.logsumexp
    if found is None or found.dtype != work or found.stride(2) != 1:
        with _on(layer.q.device):
            layer.logsumexp = found = _logsumexp(layer, work)
    return found


def _logsumexp(layer: Parts, work: torch.dtype) -> Tensor:
    q, k, visible = _lined(layer.q), _lined(layer.k), layer.visible
    (batch, heads, queries, width), keys = q.shape, k.shape[2]
    real = None if visible.keys is None else visible.keys.contiguous()
    block = gathering(_block_of(width), q.element_size(), False)
    found = torch.empty(batch, heads, queries, dtype=work, device=q.device)
    logsumexp_kernel[(batch * heads * triton.cdiv(queries, block.queries),)](
        q, k, real, found, *q.stride()[:3], *k.stride()[:3], keys, queries, keys,
        heads, heads // k.shape[1], width, _block_of(width), _scale(layer), layer.softcap,
        visible.left, visible.right, _TYPES[work], _PRECISIONS[q.dtype][0],
        block.keys, block.queries, num_warps=block.warps, num_stages=block.stages,
    )  # fmt: skip
    if layer.sink is None:
        return found
    return torch.logaddexp(found, layer.sink.reshape(1, -1, 1).to(found))


def _lined(tensor: Tensor) -> Tensor:
    """Return a tensor of which the features of a token lie side by side."""
    if _INTERPRETED and tensor.element_size() == 2:
        tensor = tensor.float()  # Triton's interpreter multiplies the bits of a bfloat16
    return tensor if tensor.stride(3) == 1 else tensor.contiguous()


def _scale(layer: Parts) -> float:
    return float(layer.q.shape[-1] ** -0.5 if layer.scale is None else layer.scale)


def _block_of(width: int) -> int:
    return max(_LEAST, 1 << (width - 1).bit_length())


def _on(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


_TYPES = {torch.float32: tl.float32, torch.float64: tl.float64}

# Of products of q and k and of v and dO, and of v and S. Halves multiply exactly and are added up in float32; a
# float32 is taken apart, so that the matrix units multiply all of it. Beside bfloat16, S is split in two before.
_PRECISIONS = {
    torch.bfloat16: ("ieee", "ieee"),
    torch.float16: ("ieee", "tf32x3"),
    torch.float32: ("tf32x3", "tf32x3"),
    torch.float64: ("ieee", "ieee"),
}


"""What the fused kernels can do, and when they are worth it."""

import torch
from torch import Tensor

from whence.kernels.maps import Combination, Maps, has_parts

# Features of a head, at most.
_WIDEST = {torch.float16: 256, torch.bfloat16: 256, torch.float32: 256, torch.float64: 128}
_WIDE = 128
_FARTHEST = 2**31  # numbers from the first token of a head to its last, as a kernel counts them


def takes(layer: Maps, row: Tensor) -> bool:
    """Say whether a kernel can contract a layer with a row, or with columns: one at a time."""
    if not has_parts(layer):
        return False
    q, k, v, grad = layer.q, layer.k, layer.v, layer.out_grad
    # Gradients of a float16 model may be held in float32 because they are too small for it.
    small = grad is not None and v.dtype == torch.float16 and grad.dtype != v.dtype
    return (
        layer.bias is None
        and layer.visible.banded
        and q.dtype in _WIDEST
        and q.dtype == k.dtype == v.dtype
        and not small
        and max(q.shape[-1], v.shape[-1]) <= _WIDEST[q.dtype]
        and min(q.numel(), k.numel()) > 0
        and max(one.shape[2] * one.stride(2) for one in (q, k, v)) < _FARTHEST
        and (row.ndim == 2 or row.shape[2] == 1)
    )


def pays(layer: Maps, row: Tensor, combination: Combination) -> bool:
    """Say whether a kernel was measured to be faster than tiles.

    On an H200 it was at all sizes tried, 32 to 2,048 tokens: 2 to 5 times at 128, where launches are all that counts,
    and 4 to 36 times at 2,048. Not tried against tiles: relevance of float32 heads wider than 128, whose tiles spill
    out of the registers; those are left to PyTorch.
    """
    wide = max(layer.v.shape[-1], layer.q.shape[-1] if has_parts(layer) else 0) > _WIDE
    return not (wide and "relevance" in combination and layer.v.dtype != torch.bfloat16)


"""The logarithm of the sum of each query's exponentials, where the forward pass left none."""

import triton
import triton.language as tl

from whence.kernels.fused.tile import exponents, in_band, lines

_LOG_2 = tl.constexpr(0.6931471805599453)


@triton.jit(do_not_specialize=["queries", "keys"])
def logsumexp_kernel(
    q,
    k,
    real,
    out,
    q_batch,
    q_head,
    q_line,
    k_batch,
    k_head,
    k_line,
    real_batch,
    queries,
    keys,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    WIDTH: tl.constexpr,
    FEATURES: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    WORK: tl.constexpr,
    PRECISION: tl.constexpr,
    KEYS: tl.constexpr,
    QUERIES: tl.constexpr,
):
    blocks = tl.cdiv(queries, QUERIES)
    first_query = (blocks - 1 - tl.program_id(0) % blocks) * QUERIES
    which = (tl.program_id(0) // blocks).to(tl.int64)  # batch and head
    batch, head = which // HEADS, which % HEADS
    q += batch * q_batch + head * q_head
    k += batch * k_batch + head // GROUP * k_head
    if real is not None:
        real += batch * real_batch

    query = first_query + tl.arange(0, QUERIES)
    low, high = 0, keys  # the keys that one of these queries sees
    if LEFT is not None:
        low = tl.maximum(low, first_query - LEFT) // KEYS * KEYS
    if RIGHT is not None:
        high = tl.minimum(high, first_query + QUERIES + RIGHT)

    q_lines = lines(q, query, queries, q_line, WIDTH, FEATURES, True)
    top = tl.full([QUERIES], float("-inf"), WORK)
    total = tl.zeros([QUERIES], WORK)
    for start in tl.range(low, high, KEYS):
        key = start + tl.arange(0, KEYS)
        there = key < keys
        if real is not None:
            there = there & tl.load(real + key, there, False).to(tl.int1)
        k_lines = lines(k, key, keys, k_line, WIDTH, FEATURES, True)
        scores = tl.dot(q_lines, tl.trans(k_lines), input_precision=PRECISION)
        seen = in_band(query[:, None], key[None, :], LEFT, RIGHT) & there[None, :]
        power = tl.where(seen, exponents(scores, SCALE, SOFTCAP), float("-inf"))
        higher = tl.maximum(top, tl.max(power, 1))
        level = tl.where(
            higher == float("-inf"), 0.0, higher
        )  # a query may have seen nothing so far
        total = total * tl.exp2(top - level) + tl.sum(tl.exp2(power - level[:, None]), 1)
        top = higher
    tl.store(out + which * queries + query, (top + tl.log2(total)) * _LOG_2, query < queries)


"""How large the blocks of a kernel are, and how many warps share one: measured, not guessed."""

from typing import NamedTuple


class Setting(NamedTuple):
    """What a kernel is compiled with."""

    keys: int
    queries: int
    warps: int
    stages: int


# Bytes of a number, features of a head, whether there is a relevance: the fastest of those that were tried on an
# H200, with bfloat16 at 128 to 32,768 tokens and float32 at 512 to 2,048.
_CONTRACTING = {
    (2, 64, False): Setting(128, 64, 4, 3),
    (2, 64, True): Setting(128, 64, 4, 2),
    (2, 128, False): Setting(128, 64, 8, 3),
    (2, 128, True): Setting(128, 64, 4, 2),
    (2, 256, False): Setting(64, 64, 4, 2),
    (2, 256, True): Setting(64, 64, 4, 1),
    (4, 64, False): Setting(64, 64, 4, 2),
    (4, 64, True): Setting(64, 64, 4, 2),
    (4, 128, False): Setting(32, 64, 4, 2),
    (4, 128, True): Setting(32, 64, 4, 2),
    (4, 256, False): Setting(32, 16, 4, 2),
    (4, 256, True): Setting(16, 16, 4, 2),
}
_GATHERING = {
    (2, 64, False): Setting(64, 64, 4, 2),
    (2, 64, True): Setting(64, 64, 4, 2),
    (2, 128, False): Setting(64, 64, 4, 2),
    (2, 128, True): Setting(32, 64, 4, 2),
    (2, 256, False): Setting(64, 64, 4, 2),
    (2, 256, True): Setting(32, 64, 4, 2),
    (4, 64, False): Setting(32, 64, 4, 2),
    (4, 64, True): Setting(64, 32, 4, 2),
    (4, 128, False): Setting(64, 32, 4, 2),
    (4, 128, True): Setting(16, 64, 4, 1),
    (4, 256, False): Setting(32, 16, 4, 2),
    (4, 256, True): Setting(16, 16, 4, 1),
}
_DOUBLE = Setting(16, 16, 4, 1)


def contracting(features: int, size: int, relevance: bool) -> Setting:
    """Return the blocks for a row times a map, from the features of a head and the bytes of a number."""
    return _DOUBLE if size == 8 else _CONTRACTING[size, max(64, features), relevance]


def gathering(features: int, size: int, relevance: bool) -> Setting:
    """Return the blocks for a map times a column."""
    return _DOUBLE if size == 8 else _GATHERING[size, max(64, features), relevance]
