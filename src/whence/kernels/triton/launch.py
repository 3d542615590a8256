"""Launch of the Triton kernels that multiply attention maps by a row or column: arguments, blocks, limits.

Block sizes are the fastest of those tried on an H200, with bfloat16 at 128 to 32,768 tokens and float32 at
512 to 2,048. Where the forward pass left no logsumexp of each query's scores, a kernel computes it.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from whence.kernels.maps import (
    AttentionMaps,
    Combination,
    FactoredMaps,
    compute_scale,
    get_output_grad,
    has_factors,
)
from whence.kernels.triton.contract_kernel import contract_kernel
from whence.kernels.triton.gather_kernel import gather_kernel
from whence.kernels.triton.tile import compute_exponents, is_in_band, launch_kernel, load_rows

# Maximum features of a head.
_MAX_FEATURES = {torch.float16: 256, torch.bfloat16: 256, torch.float32: 256, torch.float64: 128}
_MAX_RELEVANCE_FEATURES = 128
_MAX_OFFSET = 2**31  # elements between a head's first and last token: kernels count in 32 bits


def can_contract(layer: AttentionMaps, row: Tensor) -> bool:
    """Return whether a kernel can contract a layer with a row, or with a single column."""
    if not has_factors(layer):
        return False
    q, k, v, grad = layer.q, layer.k, layer.v, layer.out_grad
    # Gradients of a float16 model may be in float32, because float16 cannot hold such small numbers.
    small = grad is not None and v.dtype == torch.float16 and grad.dtype != v.dtype
    return (
        layer.bias is None
        and layer.visible.is_banded
        and q.dtype in _MAX_FEATURES
        and q.dtype == k.dtype == v.dtype
        and not small
        and max(q.shape[-1], v.shape[-1]) <= _MAX_FEATURES[q.dtype]
        and min(q.numel(), k.numel()) > 0
        and max(tensor.shape[2] * tensor.stride(2) for tensor in (q, k, v)) < _MAX_OFFSET
        and (row.ndim == 2 or row.shape[2] == 1)
    )


def is_faster(layer: AttentionMaps, row: Tensor, combination: Combination) -> bool:
    """Return whether a kernel was measured to be faster than tiles.

    On an H200 it was at all sizes tried, 32 to 2,048 tokens: 2 to 5 times at 128, where launches
    dominate, and 4 to 36 times at 2,048. Not tried against tiles: relevance of float32 heads wider
    than 128, whose tiles spill out of the registers; those are left to PyTorch.
    """
    wide = (
        max(layer.v.shape[-1], layer.q.shape[-1] if has_factors(layer) else 0)
        > _MAX_RELEVANCE_FEATURES
    )
    return not (wide and "relevance" in combination and layer.v.dtype != torch.bfloat16)


_INTERPRETED = bool(triton.knobs.runtime.interpret)
_MIN_FEATURES = 16  # the smallest block that a matrix unit multiplies


def contract(
    layer: AttentionMaps,
    row: Tensor,
    combination: Combination,
    quotient: Tensor | None,
    *,
    normalised: bool = False,
) -> Tensor:
    """Return row · mean over heads of f(A, dL/dA, R), (batch, keys), for a row of (batch, queries).

    With `normalised`, I is added to the mean, and each row of the sum divided by its own sum.
    """
    with _use_device(row.device):
        args = _build_kernel_arguments(cast(FactoredMaps, layer), combination, quotient)
        if not normalised:
            return _launch(args, row)
        sums = _launch(args, torch.ones_like(row), gathers=True, row=row)
        shared = torch.where(row != 0, row / (1 + sums), row)
        return shared + _launch(args, shared)


def gather(
    layer: AttentionMaps, columns: Tensor, combination: Combination, quotient: Tensor | None
) -> Tensor:
    """Return mean over heads of f(A, dL/dA, R) · columns, (batch, queries, 1), for (batch, keys, 1)."""
    with _use_device(columns.device):
        args = _build_kernel_arguments(cast(FactoredMaps, layer), combination, quotient)
        return _launch(args, columns, gathers=True)[:, :, None]


def _launch(
    args: "_KernelArguments", given: Tensor, *, gathers: bool = False, row: Tensor | None = None
) -> Tensor:
    """Multiply a row with the map or, if it `gathers`, the map with one column.

    With a row of weights, blocks of queries without a weight are skipped.
    """
    batch, heads, queries, keys = args.shape
    table = _GATHER_SETTINGS if gathers else _CONTRACT_SETTINGS
    block = select_settings(table, args.features, args.size, args.relevance)
    count, size = (queries, block.queries) if gathers else (keys, block.keys)
    out = torch.empty(batch, heads, count, dtype=args.work, device=given.device)
    weights = (None if row is None else row.contiguous(),) if gathers else ()
    steps = (keys, keys, queries) if gathers else (queries, keys)  # from input to input
    launch_kernel(
        gather_kernel if gathers else contract_kernel,
        (batch * heads * triton.cdiv(count, size), 1, 1),
        (*args.tensors, args.logsumexp, given.contiguous(), args.real, *weights, out),
        (*args.strides, *steps, queries, keys),
        (*args.constants, block.keys, block.queries),
        num_warps=block.warps,
        num_stages=block.stages,
    )
    return out.sum(1).to(given.dtype)


class _KernelArguments(NamedTuple):
    """The arguments of the contraction kernels for one layer."""

    tensors: tuple[Tensor | None, ...]  # q, k, v, the gradient, and the quotient in one part or two
    strides: tuple[int, ...]
    constants: tuple[Any, ...]
    logsumexp: Tensor
    real: Tensor | None
    shape: tuple[int, int, int, int]  # batch, heads, queries, keys
    features: int
    size: int  # bytes of the widest multiplied number
    relevance: bool
    work: torch.dtype


def _build_kernel_arguments(
    layer: FactoredMaps, combination: Combination, quotient: Tensor | None
) -> _KernelArguments:
    q, k, v = (_make_features_contiguous(tensor) for tensor in (layer.q, layer.k, layer.v))
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    grad = share = rest = None
    if "gradient" in combination:
        grad = _make_features_contiguous(get_output_grad(layer).to(v.dtype))
    if "relevance" in combination:
        share = _make_features_contiguous(cast(Tensor, quotient).to(work))
        if v.dtype == torch.bfloat16:
            share, rest = _split_bfloat16(share)
    visible, shape = layer.visible, (*q.shape[:3], k.shape[2])
    real = None if visible.keys is None else visible.keys.contiguous()
    width, value_width = q.shape[3], v.shape[3]
    features, value_features = round_up_features(width), round_up_features(value_width)
    sums = ensure_logsumexp(layer)
    main = (q, k, v, grad, share)
    strides = [step for one in main for step in ((0, 0, 0) if one is None else one.stride()[:3])]
    constants = (
        shape[1], shape[1] // k.shape[1], width, features, value_width, value_features,
        compute_scale(layer), layer.softcap, visible.left, visible.right, combination != "gradient_x_attention",
        _TRITON_DTYPES[work], *_DOT_PRECISIONS[q.dtype],
    )  # fmt: skip
    return _KernelArguments(
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


def _split_bfloat16(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return two bfloat16 tensors whose sum is the float32 value up to 2^-17 of it."""
    high = values.to(torch.bfloat16)
    return high, torch.empty_like(high).copy_(values - high)  # in the same memory layout


def ensure_logsumexp(layer: FactoredMaps) -> Tensor:
    """Return the logsumexp of the forward pass, (batch, heads, queries), or compute and store it."""
    work = torch.float64 if layer.q.dtype == torch.float64 else torch.float32
    logsumexp = layer.logsumexp
    if logsumexp is None or logsumexp.dtype != work or logsumexp.stride(2) != 1:
        with _use_device(layer.q.device):
            layer.logsumexp = logsumexp = _compute_logsumexp(layer, work)
    return logsumexp


def _compute_logsumexp(layer: FactoredMaps, work: torch.dtype) -> Tensor:
    q, k, visible = (
        _make_features_contiguous(layer.q),
        _make_features_contiguous(layer.k),
        layer.visible,
    )
    (batch, heads, queries, width), keys = q.shape, k.shape[2]
    real = None if visible.keys is None else visible.keys.contiguous()
    block = select_settings(_GATHER_SETTINGS, round_up_features(width), q.element_size(), False)
    logsumexp = torch.empty(batch, heads, queries, dtype=work, device=q.device)
    logsumexp_kernel[(batch * heads * triton.cdiv(queries, block.queries),)](
        q, k, real, logsumexp, *q.stride()[:3], *k.stride()[:3], keys, queries, keys,
        heads, heads // k.shape[1], width, round_up_features(width), compute_scale(layer), layer.softcap,
        visible.left, visible.right, _TRITON_DTYPES[work], _DOT_PRECISIONS[q.dtype][0],
        block.keys, block.queries, num_warps=block.warps, num_stages=block.stages,
    )  # fmt: skip
    if layer.sink is None:
        return logsumexp
    return torch.logaddexp(logsumexp, layer.sink.reshape(1, -1, 1).to(logsumexp))


def _make_features_contiguous(tensor: Tensor) -> Tensor:
    """Return the tensor with the features of a token contiguous in memory."""
    if _INTERPRETED and tensor.element_size() == 2:
        tensor = (
            tensor.float()
        )  # Triton's interpreter would multiply the bit patterns of a bfloat16
    return tensor if tensor.stride(3) == 1 else tensor.contiguous()


def round_up_features(width: int) -> int:
    """Return the features of a block that holds a head's."""
    return max(_MIN_FEATURES, 1 << (width - 1).bit_length())


def _use_device(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


_TRITON_DTYPES = {torch.float32: tl.float32, torch.float64: tl.float64}

# Precisions of the products q·k and v·dO, and of v·S. Half precision multiplies exactly and sums in
# float32; tf32x3 splits a float32, so that the matrix units multiply all digits. For bfloat16, S is
# split in two beforehand.
_DOT_PRECISIONS = {
    torch.bfloat16: ("ieee", "ieee"),
    torch.float16: ("ieee", "tf32x3"),
    torch.float32: ("tf32x3", "tf32x3"),
    torch.float64: ("ieee", "ieee"),
}

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

    q_lines = load_rows(q, query, queries, q_line, WIDTH, FEATURES, True)
    top = tl.full([QUERIES], float("-inf"), WORK)
    total = tl.zeros([QUERIES], WORK)
    for start in tl.range(low, high, KEYS):
        key = start + tl.arange(0, KEYS)
        valid = key < keys
        if real is not None:
            valid = valid & tl.load(real + key, valid, False).to(tl.int1)
        k_lines = load_rows(k, key, keys, k_line, WIDTH, FEATURES, True)
        scores = tl.dot(q_lines, tl.trans(k_lines), input_precision=PRECISION)
        visible = is_in_band(query[:, None], key[None, :], LEFT, RIGHT) & valid[None, :]
        power = tl.where(visible, compute_exponents(scores, SCALE, SOFTCAP), float("-inf"))
        higher = tl.maximum(top, tl.max(power, 1))
        # 0 for a query without a visible key so far
        level = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp2(top - level) + tl.sum(tl.exp2(power - level[:, None]), 1)
        top = higher
    tl.store(out + which * queries + query, (top + tl.log2(total)) * _LOG_2, query < queries)


class LaunchSettings(NamedTuple):
    """Compile-time block sizes, warps and stages of a kernel."""

    keys: int
    queries: int
    warps: int
    stages: int


# By bytes of a number, features of a head, and whether there is relevance: the fastest settings of
# those tried on an H200, with bfloat16 at 128 to 32,768 tokens and float32 at 512 to 2,048.
_CONTRACT_SETTINGS = {
    (2, 64, False): LaunchSettings(128, 64, 4, 3),
    (2, 64, True): LaunchSettings(128, 64, 4, 2),
    (2, 128, False): LaunchSettings(128, 64, 8, 3),
    (2, 128, True): LaunchSettings(128, 64, 4, 2),
    (2, 256, False): LaunchSettings(64, 64, 4, 2),
    (2, 256, True): LaunchSettings(64, 64, 4, 1),
    (4, 64, False): LaunchSettings(64, 64, 4, 2),
    (4, 64, True): LaunchSettings(64, 64, 4, 2),
    (4, 128, False): LaunchSettings(32, 64, 4, 2),
    (4, 128, True): LaunchSettings(32, 64, 4, 2),
    (4, 256, False): LaunchSettings(32, 16, 4, 2),
    (4, 256, True): LaunchSettings(16, 16, 4, 2),
}
_GATHER_SETTINGS = {
    (2, 64, False): LaunchSettings(64, 64, 4, 2),
    (2, 64, True): LaunchSettings(64, 64, 4, 2),
    (2, 128, False): LaunchSettings(64, 64, 4, 2),
    (2, 128, True): LaunchSettings(32, 64, 4, 2),
    (2, 256, False): LaunchSettings(64, 64, 4, 2),
    (2, 256, True): LaunchSettings(32, 64, 4, 2),
    (4, 64, False): LaunchSettings(32, 64, 4, 2),
    (4, 64, True): LaunchSettings(64, 32, 4, 2),
    (4, 128, False): LaunchSettings(64, 32, 4, 2),
    (4, 128, True): LaunchSettings(16, 64, 4, 1),
    (4, 256, False): LaunchSettings(32, 16, 4, 2),
    (4, 256, True): LaunchSettings(16, 16, 4, 1),
}
_DOUBLE_SETTINGS = LaunchSettings(16, 16, 4, 1)


def select_settings(
    table: dict[tuple[int, int, bool], LaunchSettings], features: int, size: int, relevance: bool
) -> LaunchSettings:
    """Return the settings for the features of a head and the bytes of a number."""
    return _DOUBLE_SETTINGS if size == 8 else table[size, max(64, features), relevance]
